"""Vowpal Wabbit: --epsilon_decay, champions and challengers of different age, epsilon-greedy on all features."""

from tools.benchmarks.selection._vowpal import Namespaces

ARGUMENTS = "--cb_explore_adf --epsilon_decay --model_count 3 -q AX -q BX"
RUNS = f"{ARGUMENTS}, namespaces for a, b and the action"


class Peer(Namespaces):
    arguments = ARGUMENTS
