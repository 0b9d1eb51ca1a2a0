"""Portfolios from files: what is read, and every way in which a file may be wrong."""

from pathlib import Path
from typing import Any

import pytest

from equipoise.bounds import Observed, Power
from equipoise.config import parse, read
from equipoise.errors import EquipoiseError, InvalidArgument, UnreadableFile
from equipoise.features import Concat, Interactions, Number, OneHot, Prefix, Schema, Shared
from equipoise.lab.rivals import RIVAL_LEARNERS, RIVAL_SELECTORS
from equipoise.learners import OFUL, UCB, EpsilonGreedy
from equipoise.selectors import BalancedElimination, RealizedBalancing

OFFERS = """
version = 1
name = "offers"
seed = 5
[reward]
range = [0, 2]
deadline = 100
default = 0.0
[actions]
names = ["left", "middle", "right"]
[[learner]]
arms = 3
use = "UCB"
[[learner]]
arms = 3
epsilon = 0.1
name = "greedy"
use = "EpsilonGreedy"
"""
RANKING = """
version = 1
name = "ranking"
share_data = true
[selector]
use = "BalancedElimination"
delta = 0.1
[[learner]]
use = "OFUL"
dim = 4
bound = { use = "Observed" }
[[learner]]
use = "OFUL"
dim = 8
bound = { use = "Power", coefficient = 2.0 }
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_learners_with_the_recommended_selector(tmp_path: Path) -> None:
    config = read(write(tmp_path / "portfolio.toml", OFFERS))
    portfolio = config.portfolio()
    assert (config.name, config.settings.action_names) == ("offers", ("left", "middle", "right"))
    assert portfolio.learners == (UCB(3, reward_range=(0, 2)), EpsilonGreedy(3, epsilon=0.1, name="greedy"))
    assert isinstance(portfolio.selector, RealizedBalancing) and portfolio.selector.reward_range == (0.0, 2.0)
    assert (portfolio.settings.seed, portfolio.settings.deadline, portfolio.settings.default_reward) == (5, 100, 0.0)
    assert config.portfolio().learners[0] is not portfolio.learners[0]


def test_bounds_follow_the_learners(tmp_path: Path) -> None:
    config = read(write(tmp_path / "portfolio.toml", RANKING))
    portfolio = config.portfolio()
    assert portfolio.selector == BalancedElimination([Observed(), Power(2.0)], delta=0.1)
    assert portfolio.learners == (OFUL(4), OFUL(8))
    assert portfolio.settings.share_data


SERVED = """
version = 1
name = "colors"
explore = 0.1
delays = "independent"
[reward]
deadline = "24h"
default = 0.5
aggregate = "last"
[actions]
names = ["red", "blue"]
[actions.features.price]
type = "number"
low = 0
high = 10
[context]
age = { type = "number" }
visits = { type = "number", scaled = false }
[[learner]]
use = "OFUL"
bound = { use = "Power", coefficient = 2.0 }
[learner.features]
use = "Concat"
maps = [
    { use = "Prefix", dim = 1 },
    { use = "Interactions", left = { use = "OneHot", ids = ["red", "blue"] }, right = { use = "Shared", dim = 2 } },
]
"""


def test_features_names_and_times(tmp_path: Path) -> None:
    config = read(write(tmp_path / "portfolio.toml", SERVED))
    schema = Schema({"age": Number(), "visits": Number(scaled=False)}, {"price": Number(0, 10)})
    assert config.settings.schema == schema
    portfolio = config.portfolio()
    both = Interactions(OneHot(["red", "blue"]), Shared(2))
    assert portfolio.learners == (OFUL(features=Concat([Prefix(1), both]), action_bound=2**0.5),)
    assert (portfolio.settings.deadline, portfolio.settings.aggregate, portfolio.settings.explore) == (
        86400.0,
        "last",
        0.1,
    )
    assert portfolio.settings.delays == "independent"


def test_a_learner_that_joins_later() -> None:
    config = parse({"version": 1, "name": "x", "reward": {"range": [0, 2]}, "learner": [{"use": "UCB", "arms": 2}]})
    table = {"use": "UCB", "arms": 4, "bound": {"use": "Power", "coefficient": 3.0}}
    assert config.learner(table) == (UCB(4, reward_range=(0, 2)), Power(3.0))
    assert config.learner({"use": "UCB", "arms": 4})[1] is None
    with pytest.raises(EquipoiseError, match="class of the learner 'UBC' is unknown; did you mean UCB"):
        config.learner({"use": "UBC"})


HUGE_DEADLINE = f"deadline is {10**26}, but must be a whole number from 1 to {2**62}"
WRONG = {
    "version = 1": {
        "version = 2": "version is 2, but must be 1",
        "": "version is None, but must be 1",
    },
    'name = "ranking"': {"": "name is None, but must be a nonempty string"},
    "share_data = true": {
        "share_dat = true": "key 'share_dat' is unknown; did you mean share_data",
        "share_data = 1": "share_data is 1, but must be True or False",
        "seed = -1": "seed is -1",
        "[reward]\nranges = [0, 1]": "key of \\[reward\\] 'ranges' is unknown; did you mean range",
        "[reward]\nrange = [1, 0]": "range is \\[1, 0\\], but must have low < high",
        "[reward]\ndeadline = 5": "deadline is 5 and default_reward is None",
        "[reward]\ndeadline = 5\ndefault = 2.0": "default_reward is 2.0, but must lie in reward_range \\(0, 1\\)",
        f"[reward]\ndeadline = {10**26}\ndefault = 0.0": HUGE_DEADLINE,
        "[reward]\ndeadline = '5x'\ndefault = 0.0": "deadline is '5x', but a text must be a number",
        "[reward]\ndeadline = true\ndefault = 0.0": "deadline is True, but must be a whole number",
        "explore = 2.0": "explore is 2.0, but must lie in \\[0, 1\\]",
        "[context]\nage = ['a']": "context.age is \\['a'\\], but must be a feature such as Number",
        "[context]\nage = {type = 'numbr'}": "type of context.age 'numbr' is unknown; did you mean number",
        "[context.age]\ntype = 'number'\nlow = 3": "context.age: low is 3.0 and high is None, but must be",
        "[context.age]\ntype = 'number'\nhigher = 3": "setting of context.age 'higher' is unknown; did you mean high",
        "[schema]\nunknown = 'drop'": "unknown is 'drop', but must be one of error, ignore, hash",
        "[schema]\nknown = 'drop'": "key of \\[schema\\] 'known' is unknown; did you mean unknown",
        "[context]\nfeatures = ['a', 'b']": "features of \\[context\\] is a list, as earlier releases had it, but each "
        'feature must have a table with its type: \\[context.NAME\\] with type = "number", and with scaled = false',
        "[actions]\nfeatures = ['a']": "features of \\[actions\\] is a list, .*: \\[actions.features.NAME\\] with type",
        "[actions]\nnames = 'red'": "action_names is 'red', but must be a list of str",
        "reward = 3": "reward is 3, but must be a table",
        "[actions]\nname = []": "key of \\[actions\\] 'name' is unknown",
    },
    'use = "BalancedElimination"': {
        'use = "BalancedElim"': "class of \\[selector\\] 'BalancedElim' is unknown; did you"
    },
    "delta = 0.1": {
        "delt = 0.1": "setting of \\[selector\\] 'delt' is unknown; did you mean delta",
        "delta = 2.0": "delta is 2.0, but must lie in \\(0, 1\\)",
        "n_learners = 2": "n_learners is given in \\[selector\\], but must follow from the learners",
    },
    'use = "OFUL"\ndim = 4': {
        'use = "OFULL"': "class of learner 1 'OFULL' is unknown; did you mean OFUL",
        'use = "UCB"': "learner 1 cannot be made: .*arms",
        "use = 4": "use of learner 1 is 4, but must be the name of a registered class",
    },
    "dim = 4": {
        "dims = 4": "setting of learner 1 'dims' is unknown; did you mean dim",
        "": "dim and features of learner 'OFUL' do not say its columns, but must, unless they follow from a schema",
        "dim = 0": "dim is 0",
        "features = 4": "features is 4, but must be a feature map as data",
        "features = { dim = 4 }": "features of learner 1 is {'dim': 4}, but must say by `use` what it is",
        "features = { use = 'Prefx', dim = 4 }": "feature map 'Prefx' is unknown; did you mean Prefix",
        "features = { use = 'Prefix', dims = 4 }": "but must have the settings of Prefix",
        "features = { map = 'Prefix', dim = 4 }": "but must say by `use` what it is",
    },
    'bound = { use = "Observed" }': {"": "bound of learner 1 is missing, but BalancedElimination needs one for each"},
    'use = "Observed"': {
        'use = "Powr"': "bound of learner 1 'Powr' is unknown; did you mean Power",
        'use = "Custom"': "bound of learner 1 'Custom' is unknown",
    },
    "coefficient = 2.0": {"coeff = 2.0": "bound 'Power' has settings .* but must have those of its class"},
    'use = "BalancedElimination"\ndelta = 0.1': {
        'use = "Uniform"': "bound of learner 1 is given, but Uniform takes no"
    },
}


@pytest.mark.parametrize(
    ("old", "new", "message"), [(old, new, WRONG[old][new]) for old in WRONG for new in WRONG[old]]
)
def test_wrong_files(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in RANKING
    path = write(tmp_path / "portfolio.toml", RANKING.replace(old, new, 1))
    with pytest.raises(InvalidArgument, match=f"portfolio.toml: .*{message}"):
        read(path)


@pytest.mark.parametrize("name", [*RIVAL_SELECTORS, *RIVAL_LEARNERS])
def test_a_rival_is_refused_because_it_runs_in_simulations_only(name: str) -> None:
    """The reported fault: the message proposed all selectors of the package, as if the name were misspelled."""
    content: dict[str, Any] = {"version": 1, "name": "shop", "learner": [{"use": "UCB", "arms": 3}]}
    where = "[selector]"
    if name in RIVAL_SELECTORS:
        content["selector"] = {"use": name}
    else:
        content["learner"][0], where = {"use": name}, "learner 1"
    with pytest.raises(InvalidArgument) as caught:
        parse(content).portfolio()
    assert str(caught.value) == f"class of {where} is {name}, which runs in simulate() only, not in a portfolio"


def test_a_range_is_given_once() -> None:
    learner = {"use": "UCB", "arms": 2, "reward_range": [0, 1]}
    content: dict[str, Any] = {"version": 1, "name": "x", "reward": {"range": [0, 1]}, "learner": [learner]}
    with pytest.raises(
        InvalidArgument, match="reward_range is given, but must be given once, as range of \\[reward\\]"
    ):
        parse(content).learners()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="is not valid TOML"):
        read(write(tmp_path / "portfolio.toml", "version = = 1"))
    with pytest.raises(UnreadableFile, match="is nested too deeply"):
        read(write(tmp_path / "portfolio.toml", f"x = {'[' * 5_000}{']' * 5_000}"))
    with pytest.raises(InvalidArgument, match=r"learner is a table, but must be a list of tables: \[\[learner\]\]"):
        read(write(tmp_path / "portfolio.toml", 'version = 1\nname = "x"\n[learner]\nuse = "UCB"'))
    with pytest.raises(EquipoiseError, match=r"none.toml' could not be read"):
        read(tmp_path / "none.toml")
    with pytest.raises(InvalidArgument, match=r"there must be at least one \[\[learner\]\]"):
        read(write(tmp_path / "portfolio.toml", 'version = 1\nname = "x"'))
