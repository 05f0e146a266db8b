-- Comments on the tables of this folder's subject.

-- table fair_key: Keys of fair queues that have settings.
--   queue: The fair queue.
--   name: The submitter, or the kind in a queue that is fair by kind; empty: requests without a submitter.
--   key: The fairness key that their messages have.
--   weight: How many of its requests are served for one of a key of weight 1.
--   paused: Whether its turn is left out.

-- index fair_key_key_idx: Serves the folds of a journal, which read the settings of a key; two names do not share one.
