"""Offers with shared features and ids, and feature maps as data.

`Offers` is a context for learners over features and over arms; a plain K x d matrix is one without shared features and
ids. A feature map turns offers into the rows that a learner sees: `OFUL(features=Columns([0, 3]))`.

>>> offers = Offers([[1.0, 0.5], [0.0, 0.5]], shared=[2.0], ids=["red", "blue"])
>>> offers.rows(Interactions(Columns([0]), Shared(1))).tolist()
[[2.0], [0.0]]
>>> offers.rows(Concat([Columns([1]), OneHot(["blue", "red"])])).tolist()
[[0.5, 0.0, 1.0], [0.5, 1.0, 0.0]]
"""

from __future__ import annotations

from equipoise.features.fields import Category, Feature, Flag, Number, Text, Vector
from equipoise.features.maps import (
    Columns,
    Concat,
    CustomFeatures,
    Default,
    Interactions,
    One,
    OneHot,
    Prefix,
    Shared,
)
from equipoise.features.offers import FeatureMap, Offers
from equipoise.features.schema import Schema

__all__ = [
    "Category",
    "Columns",
    "Concat",
    "CustomFeatures",
    "Default",
    "Feature",
    "FeatureMap",
    "Flag",
    "Interactions",
    "Number",
    "Offers",
    "One",
    "OneHot",
    "Prefix",
    "Schema",
    "Shared",
    "Text",
    "Vector",
]
