select name, stages, queues, started_at, last_seen_at, stopped_at, alive, held from tidegate.worker_overview
  order by name;
