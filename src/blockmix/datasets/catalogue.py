"""Catalogue of the real data sets of section 3 of the paper: files, digests, public sources, descriptions.

Each constant is a `DataSet`; the functions download one and bring it into the form of the project's copy, whose digests
these are.
"""

from __future__ import annotations

import warnings
from urllib.request import urlopen

from sklearn.datasets import fetch_openml

from blockmix.datasets.files import CsvContent, DataSet, StoredFile, parse

RDATASETS_OLIVE = "https://vincentarelbundock.github.io/Rdatasets/csv/dslabs/olive.csv"
OPENML_ECOLI = 39


def olive_of_rdatasets(url: str = RDATASETS_OLIVE) -> CsvContent:
    """The olive oils of Rdatasets, converted from per cent to the original units of 0.01 %.

    Parameters
    ----------
    url : str
        Address of the file; file:// works too.
    """
    with urlopen(url, timeout=60) as response:
        header, cells = parse(response.read().decode("utf-8"))
    if header[:3] != ["rownames", "region", "area"]:
        raise ValueError(f"its columns are {header}")
    return CsvContent(header[1:], [row[1:3] + [f"{100 * float(cell):.0f}" for cell in row[3:]] for row in cells])


def ecoli_of_openml(data_id: int = OPENML_ECOLI) -> CsvContent:
    """The proteins of OpenML, which have no sequence names.

    Parameters
    ----------
    data_id : int
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of retries; a failure is raised
        bunch = fetch_openml(data_id=data_id, as_frame=False, parser="liac-arff", cache=False)
    cells = [[str(label), *map(str, row)] for label, row in zip(bunch.target, bunch.data.tolist(), strict=True)]
    return CsvContent(["class", *bunch.feature_names], cells)


WINE = DataSet(
    name="wine, 27 variables",
    files=(
        StoredFile("wine.csv.gz", "9e44095d380055fceec27f536eec77c5d90e76fcde3b9c0c4af6ad1597d70c84"),
        StoredFile("wine.csv", "251d3a75e2c0a396dccc1fd8459a7760431895b94877faab8b0a38aecb8b0bec", "values"),
    ),
    target="type",
    info=("class", "year"),
    remedy="write wine27 of the R package MBCbook to wine.csv, with the column type first and the 27 variables "
    "after it",
    description="""Wine, 27 variables: 178 wines of three types from Piedmont, 1970-1979.

Forina, Armanino, Castino and Ubigli (1986), Vitis 25:189-201, as in the R packages pgmm (wine) and MBCbook (wine27).
59 Barolo, 71 Grignolino, 48 Barbera. 13 of the variables are those of scikit-learn's load_wine, row by row.
The other columns, in info: class (1, 2, 3), year.
""",
)

OLIVE = DataSet(
    name="olive",
    files=(
        StoredFile("olive.csv.gz", "c7950098691ebc3449bc767aba74e9b791db4a932d1070b9f222485a1615efd3"),
        StoredFile("olive.csv", "f892c94d707088c9836d6ceef98fddb179e5d4f37c700e78ec54013dc72ab47c", "values"),
    ),
    target="region",
    info=("area", "region_code", "area_code"),
    remedy="write olive of the R package pgmm to olive.csv, with the column region (Southern Italy, Sardinia, Northern "
    "Italy) first and the 8 acids after it",
    description="""Olive: eight fatty acids, in 0.01 %, of 572 olive oils from three regions of Italy.

Forina and Tiscornia (1982), Annali di Chimica 72:143-155, as in the R packages pgmm and dslabs (olive).
323 of Southern Italy, 98 of Sardinia, 151 of Northern Italy; the paper clusters into these three.
The other columns, in info: area (nine of them) and, in the project's copy, region_code and area_code.
""",
    public="Rdatasets",
    fetch=olive_of_rdatasets,
)

ECOLI = DataSet(
    name="ecoli",
    files=(
        StoredFile("ecoli.csv.gz", "b2a59f01a76623ccdd41684f96bfce4fef875b14ac851e15d72a293f2d88c9bc"),
        StoredFile("ecoli.csv", "9c04307b621f467a3720f050bb964ccb6cf43e47b4626843492461f36b25f37b", "values"),
    ),
    target="class",
    info=("sequence_name",),
    remedy="write ecoli.data of the UCI Machine Learning Repository to ecoli.csv, with the column class first and mcg, "
    "gvh, lip, chg, aac, alm1, alm2 after it",
    description="""Ecoli: localisation sites of 336 proteins, seven scores.

UCI Machine Learning Repository (Nakai and Kanehisa 1991; Horton and Nakai 1996), also OpenML data set 39.
Eight classes: cp 143, im 77, pp 52, imU 35, om 20, omL 5, imL 2, imS 2. The columns lip and chg take two values each
(326 to 10 and 335 to 1), so covariances are singular within most classes.
The other column, in info and in the project's copy only: sequence_name.
""",
    public="OpenML (data set 39)",
    fetch=ecoli_of_openml,
)

ALON = DataSet(
    name="alon",
    files=(
        StoredFile("alon.csv.gz", "084351ba3a73b9b9a4523cba3fb1d40b17f480a0442f33e080ecf09f4c4be97d"),
        StoredFile("alon.csv", "30e18d8cae5318045adff3a059be8773b304f139c0ccb559d5f361d1eb1cad68", "values"),
    ),
    target="label",
    info=("sample", "tissue_code"),
    remedy="write Colon of the R package plsgenomics to alon.csv, with the column label (tumor, normal) first and the "
    "2000 genes after it",
    description="""Alon: expression of 2000 genes in 62 samples of colon tissue, raw intensities.

Alon et al. (1999), PNAS 96:6745-6750; the same values as Colon of the R package plsgenomics. 40 tumors, 22 normal.
Columns are named by GenBank accession, a repeated one with the suffix .1, .2; nine columns repeat another one exactly,
as in the original, and stay. The other columns, in info: sample, tissue_code (the patient, negative for a tumor).
""",
)

GOLUB38 = DataSet(
    name="golub, 38 patients",
    files=(
        StoredFile("golub.csv.gz", "b3322bdb675dc24c1c47d0e88ce284316013ca8813b64852b1e4fe0df5d9771f"),
        StoredFile("golub.csv", "b5e2981eb8a6c4eb74cf3d9972cb388fc8e9a07d94ce5b90f4b2d58939516bd9", "values"),
    ),
    target="label",
    info=("sample",),
    remedy="write leukemia of the R package plsgenomics to golub.csv, with the column label (ALL, AML) first and the "
    "3051 genes after it",
    description="""Golub, 38 patients: expression of 3051 genes in leukaemia, 27 ALL and 11 AML.

Golub et al. (1999), Science 286:531-537, as in the R packages plsgenomics (leukemia) and multtest (golub): the training
patients, clipped and filtered (see clip_and_filter), log10, each sample standardised.
The other column, in info: sample.
""",
)

GOLUB72 = DataSet(
    name="golub, 72 patients",
    files=(
        StoredFile("golub72.csv.gz", "05b20738f0d066e39654ede3a4d1c48d9947a96d7f2defe6e3b865d4ad28852c"),
        StoredFile("golub72.csv", "d899517573e5ee9a46e6041c247ea8f4aae28c892321d16189c1fb9a1ab2bd3d", "values"),
    ),
    target="label",
    info=("sample", "set", "cell"),
    remedy="write Golub_Merge of the Bioconductor package golubEsets to golub72.csv, with the column label (ALL, AML) "
    "first and the 7129 probes after it",
    description="""Golub, 72 patients: raw intensities of 7129 probes in leukaemia, 47 ALL and 25 AML.

Golub et al. (1999), Science 286:531-537, as in the Bioconductor package golubEsets (Golub_Merge).
The other columns, in info: sample, set (train 38, independent 34), cell (B-cell, T-cell, none).
""",
)

TRIPADVISOR = DataSet(
    name="tripadvisor",
    files=(
        StoredFile("tripadvisor_hotel_reviews.csv", "8475421c8e1500f2b9d1a640f8dc2fb08bee3173", "git"),
        StoredFile("tripadvisor.csv.gz", "71090bf0b803a41c573d6d3bc1619e6ba12b2ffe803a8cecf787021706b844ba"),
    ),
    target="Rating",
    info=("kaggle_row", "subset"),
    remedy="download tripadvisor_hotel_reviews.csv of the Kaggle data set andrewmvd/trip-advisor-hotel-reviews",
    description="""TripAdvisor: hotel reviews with ratings from 1 to 5, lower case, stop words removed.

Alam, Ryu and Lee (2016); Kaggle, andrewmvd/trip-advisor-hotel-reviews, CC BY-NC 4.0. The original has 20491 reviews and
is read where present. The project's copy has 11477 of them, in which long reviews and the ratings 3 and 4 are
under-represented; its rows with kaggle_row >= 0 are the first 2000 of the original, an unbiased block.
The other columns of the copy, in info: kaggle_row, subset.
""",
)

TRIPADVISOR_LARA = DataSet(
    name="tripadvisor, LARA",
    files=(StoredFile("tripadvisor_lara.csv.gz", "2ee33efd86023423996a1bf3de79489cb470010232dea4e08e7c31b4a33a8d3c"),),
    target="rating",
    info=("hotel_id", "date"),
    remedy="copy the project's random sample of the LARA corpus (not published: the public reviews are which='kaggle')",
    description="""TripAdvisor, LARA: 20491 raw English hotel reviews with ratings from 1 to 5.

A random sample of the corpus of Wang, Lu and Zhai (2010), from which the Kaggle file was drawn too: a stand-in of the
same size, not the same rows, and not pre-processed. The other columns, in info: hotel_id, date.
""",
)

DISNEYLAND = DataSet(
    name="disneyland",
    files=(
        StoredFile("DisneylandReviews.csv", "909c3563769e7ae60001974ccc27454556068c13", "git", encoding="latin-1"),
        StoredFile("disneyland.csv.gz", "f4a4410f584e8c1b145840ea3494bef0e9b1193f9751094b14bea4f104ab425e"),
    ),
    target="Rating",
    info=("Branch", "Review_ID", "Year_Month", "Reviewer_Location", "subset"),
    remedy="download DisneylandReviews.csv of the Kaggle data set arushchillar/disneyland-reviews",
    description="""Disneyland: reviews of three parks with ratings from 1 to 5.

Kaggle, arushchillar/disneyland-reviews. The original has 42656 reviews, 13630 of Paris, and is read where present.
The project's copy has 4195, 1429 of Paris: a random tenth and, marked "france" in subset, more by French visitors.
The other columns, in info: Branch, Review_ID, Year_Month, Reviewer_Location and, in the copy, subset.
""",
)
