// The page about topics: its sections in order.

heading(["Documents", "Topics", "Terms"]);
topicOverview();
heatMap();
topicCards();
termGroups();
made();
themes();
