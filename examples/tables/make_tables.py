"""Make the three tables of the site's paths: simulated, since the real ones that we know may not be passed on.

Run from the root of the repository: `python examples/tables/make_tables.py`. The same program writes the same files.
"""

from pathlib import Path

import numpy as np
import pandas as pd

FOLDER = Path(__file__).parent


def survey(rng: np.random.Generator) -> pd.DataFrame:
    """400 respondents, three scales of six items from 1 to 7, three kinds of people, 4 % of the answers missing."""
    kinds = rng.choice(3, 400, p=[0.5, 0.3, 0.2])
    profiles = np.array([[0.0, 0.0, 0.0], [2.6, 0.3, -0.6], [0.8, 2.8, -2.6]])  # anxious, depressed, well
    scales = profiles[kinds] + 0.6 * rng.standard_normal((400, 3))
    answers = 3.4 + 0.8 * np.repeat(scales, 6, axis=1) + 0.75 * rng.standard_normal((400, 18))
    names = [f"{scale}_{item}" for scale in ("anx", "dep", "well") for item in range(1, 7)]
    items = pd.DataFrame(np.clip(np.round(answers), 1, 7), columns=names)
    items = items.mask(rng.random(items.shape) < 0.04).astype("Int64")
    treated = rng.random(400) < np.array([0.6, 0.4, 0.35])[kinds]
    items.insert(0, "respondent", 1001 + np.arange(400))
    items["arm"] = np.where(treated, "treated", "waiting")
    return items


def genes(rng: np.random.Generator) -> pd.DataFrame:
    """90 samples of 150 genes: modules of 25, 20 and 15 genes, one of them raised in tumours."""
    tumour = np.arange(90) < 50
    X = rng.standard_normal((90, 150))
    begin, names = 0, []
    for module, size in (("CYC", 25), ("IMM", 20), ("ECM", 15)):
        signs = np.where(rng.random(size) < 0.2, -1, 1)
        factor = rng.standard_normal(90) + (1.5 * tumour if module == "CYC" else 0)
        X[:, begin : begin + size] += signs * rng.uniform(0.8, 1.6, size) * factor[:, None]
        names += [f"{module}{i}" for i in range(1, size + 1)]
        begin += size
    names += [f"G{i}" for i in range(begin, 150)]
    order = rng.permutation(150)
    frame = pd.DataFrame(np.round(8 + X[:, order], 2), columns=[names[j] for j in order])
    frame.insert(0, "sample", [f"S{i:02}" for i in range(1, 91)])
    frame["tissue"] = np.where(tumour, "tumour", "normal")
    return frame.sample(frac=1, random_state=0)


PARTS = {
    "the room": ["dirty carpet", "stained towels", "broken shower", "noisy air conditioning", "smell of smoke"],
    "the staff": ["friendly staff", "helpful reception", "kind manager", "quick check in", "a smile at the desk"],
    "the place": ["close to the metro", "walk to the old town", "view of the harbour", "quiet street", "near the park"],
    "breakfast": ["fresh fruit", "strong coffee", "warm bread", "large buffet", "eggs to order"],
}
STARS = {"the room": 1.8, "the staff": 4.5, "the place": 4.2, "breakfast": 3.8}


def reviews(rng: np.random.Generator) -> pd.DataFrame:
    """600 made-up reviews of hotels, each mostly about one thing, with stars and a month."""
    rows = []
    for _ in range(600):
        month = int(rng.integers(1, 13))
        share = np.array([0.05 + 0.06 * month, 0.3, 0.25, 0.25])  # rooms get worse over the year
        topic = str(rng.choice([*PARTS], p=share / share.sum()))
        about = [topic, topic, topic, str(rng.choice([*PARTS]))]
        phrases = [str(rng.choice(PARTS[part])) for part in about]
        stars = int(np.clip(np.round(np.mean([STARS[part] for part in about]) + 0.6 * rng.standard_normal()), 1, 5))
        rows.append((f"2025-{month:02}-01", stars, f"Our hotel had {', '.join(phrases[:3])} and {phrases[3]}."))
    return pd.DataFrame(rows, columns=["month", "stars", "review"])


if __name__ == "__main__":
    for number, make in enumerate((survey, genes, reviews)):
        make(np.random.default_rng(number)).to_csv(FOLDER / f"{make.__name__}.csv", index=False)
