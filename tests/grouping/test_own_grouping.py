"""A grouping written by a user: fitted, selected, reported and drawn like the built-in ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform
from strategies import Matrix, block_rows

from blockmix import BlockDiagonalCovariance, GaussianBiclustering, Partition, load, select
from blockmix.grouping import BestCut, HierarchicalGrouping, Proposal, SilhouetteRule
from blockmix.plotting.views import component_view
from blockmix.report import write_report

TRUTH = Partition([0, 0, 0, 0, 1, 1, 1, 2, 2])
RULES = [3, "auto", "silhouette", BestCut("full"), SilhouetteRule(candidates=[2, 3])]
every_rule = pytest.mark.parametrize("rule", RULES, ids=str)


class Neighbors:
    """Runs of neighboring columns, parted where the correlation of two neighbors is weakest."""

    def group(self, S: Matrix, n_groups: int, n_rows: float) -> Proposal:
        strength = np.abs(np.diagonal(S, 1)) / np.sqrt(S.diagonal()[1:] * S.diagonal()[:-1])
        starts = np.zeros(len(S), dtype=int)
        starts[1 + np.argsort(strength)[: n_groups - 1]] = 1
        return Proposal(Partition(np.cumsum(starts)))


class Cautious(BestCut):
    """A rule of the documented signature, which does not ask what common factors leave."""

    def choose(self, S: Matrix, n_rows: float, grouping: Any, price: float | None = None) -> Proposal:
        return super().choose(S, 0.9 * n_rows, grouping, price=price)


class Ward:
    """Ward's tree of 1 − |r|, which the package does not have."""

    def distances(self, R: Matrix) -> Matrix:
        apart: Matrix = 1 - np.abs(R)
        return apart

    def tree(self, R: Matrix) -> Matrix:
        found: Matrix = linkage(squareform(self.distances(R), checks=False), "ward")
        return found

    def group(self, S: Matrix, n_groups: int, n_rows: float) -> Proposal:
        raise AssertionError("the rules cut the tree")


def rows(n_rows: int = 200) -> Matrix:
    """Two clusters apart, in both of which neighboring columns belong together."""
    rng = np.random.default_rng(0)
    X = block_rows(rng, n_rows, TRUTH, 0.8)
    X[: n_rows // 2] += 4
    return X


def test_a_rule_need_not_ask_what_common_factors_leave() -> None:
    X = one_cluster() + 0.7 * np.random.default_rng(1).standard_normal((100, 1))
    model = GaussianBiclustering(1, n_column_groups=Cautious("full"), common_factors=1).fit(X)
    assert model.common_loadings_[0].shape == (9, 1)


def one_cluster() -> Matrix:
    return rows()[:100]


@every_rule
def test_a_covariance_with_each_rule(rule: Any) -> None:
    assert BlockDiagonalCovariance(rule, grouping=Neighbors()).fit(one_cluster()).partition_ == TRUTH


@every_rule
@pytest.mark.parametrize("shared", [False, True])
def test_a_mixture_with_each_rule(rule: Any, shared: bool) -> None:
    model = GaussianBiclustering(2, rule, grouping=Neighbors(), shared_covariance=shared, random_state=0).fit(rows())
    assert [Partition(labels) for labels in model.column_labels_] == [TRUTH, TRUTH]


def test_it_is_selected_with() -> None:
    X = rows()
    table = select(X, [1, 2, 3], [2, 3, 4, "auto"], grouping=Neighbors(), random_state=0)
    assert (table.best_.n_components, table.best_.groups) == (2, (3, 3))
    assert all(isinstance(row.model.grouping, Neighbors) for row in table.rows)


@pytest.mark.parametrize("grouping", [Neighbors(), Ward()], ids=lambda grouping: type(grouping).__name__)
def test_it_is_reported(grouping: Any, tmp_path: Path) -> None:
    X = rows()
    table = select(X, [1, 2, 3], "auto", grouping=grouping, random_state=0)
    write_report(table.best_.model, tmp_path / "mixture.html", X, table=table)
    covariance_model = BlockDiagonalCovariance("silhouette", grouping=grouping).fit(X[:100])
    write_report(covariance_model, tmp_path / "covariance.html", X[:100])
    for name in ("mixture", "covariance"):
        page = (tmp_path / f"{name}.html").read_text(encoding="utf-8")
        assert type(grouping).__name__ in page  # among the parameters of the model


@pytest.mark.parametrize("rule", ["silhouette", BestCut()], ids=str)
def test_its_own_tree_is_cut_and_drawn(rule: Any) -> None:
    # Red if the rules or the figures know only the trees of HierarchicalGrouping.
    X = one_cluster()
    model = BlockDiagonalCovariance(rule, grouping=Ward()).fit(X)
    R = np.corrcoef(X.T)
    np.testing.assert_allclose(model.linkage_, Ward().tree(R), atol=1e-5)  # the ridge is 1e-6
    drawn, default = (component_view(model.blocks_, X, None, own).tree for own in (model, None))
    np.testing.assert_allclose(drawn, Ward().tree(R), atol=1e-9)
    np.testing.assert_allclose(default, HierarchicalGrouping().tree(R), atol=1e-9)
    assert not np.allclose(drawn[:, 2], default[:, 2])


@pytest.mark.parametrize("kind", [BlockDiagonalCovariance, GaussianBiclustering])
def test_a_file_holds_no_code_so_its_class_is_handed_to_load(kind: Any, tmp_path: Path) -> None:
    model = kind(2, grouping=Neighbors()).fit(rows())
    model.save(tmp_path / "model.blockmix")
    with pytest.raises(ValueError, match="hand a class of your own to load"):
        load(tmp_path / "model.blockmix")
    found = load(tmp_path / "model.blockmix", classes=[Neighbors])
    assert isinstance(found.grouping, Neighbors)
    assert np.array_equal(found.column_labels_, model.column_labels_)
