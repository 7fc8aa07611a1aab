"""
Topics of reviews
=================

Made-up reviews of hotels with ratings: what guests complain about, what they praise, and which words go together.
"""

import numpy as np

from blockmix import TopicBiclustering

PHRASES = {
    1: ["dirty carpet and stained towels", "a rude manager at the desk", "the smell of cigarette smoke"],
    3: ["thin walls, noisy street", "slow elevator, long queue", "an average breakfast buffet"],
    5: ["friendly and helpful staff", "walking distance to the metro station", "a lovely view of the harbour"],
}
FILLER = ["hotel", "room", "night", "stay", "trip", "city", "week", "visit", "place", "time"]

rng = np.random.default_rng(0)


def review(mood):
    """A few phrases, mostly of one mood, and words that mean nothing."""
    moods = rng.choice([mood, *PHRASES], 3, p=[0.7, 0.1, 0.1, 0.1])
    said = [str(rng.choice(PHRASES[int(m)])) for m in moods]
    return ". ".join([*said, " ".join(rng.choice(FILLER, 6))])


moods = rng.choice(list(PHRASES), 600)
reviews = [review(int(mood)) for mood in moods]
ratings = np.clip(moods + rng.integers(-1, 2, len(moods)), 1, 5)

model = TopicBiclustering(n_topics=3, n_term_groups=19, random_state=0).fit(reviews, ratings)
for g, topic in enumerate(model.topics_):
    print(f"topic {g}, mean rating {topic.mean_rating:.1f}, for example: {reviews[topic.documents[0]]}")

# %%
# How much each group of words matters for each topic, in percent of the average.
model.plot()

# %%
# New reviews have topics too:
new = ["The carpet was dirty and the manager rude.", "Helpful staff, and the metro station is near."]
print(model.predict(new), model.predict_proba(new).round(2))
