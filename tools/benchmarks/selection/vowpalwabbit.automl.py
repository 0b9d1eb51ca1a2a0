"""Vowpal Wabbit: --automl, champions and challengers over sets of interactions between namespaces."""

from tools.benchmarks.selection._vowpal import Namespaces

ARGUMENTS = "--cb_explore_adf --automl 3 --oracle_type one_diff"
RUNS = f"{ARGUMENTS}, namespaces for a, b and the action"


class Peer(Namespaces):
    arguments = ARGUMENTS
