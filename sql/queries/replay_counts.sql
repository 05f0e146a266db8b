select kind, replays from tidegate.replay_counts();
