-- What the tables of this folder's subject are for, column by column.

comment on table tidegate.timeout_estimator is
  'One row for each adaptive timeout that something was folded into: what the fleet has learned; written by '
  'fold_timeouts. It '
  'stays when its policy leaves adaptive mode, and is where it goes on when it comes back.';
comment on column tidegate.timeout_estimator.kind is 'The kind.';
comment on column tidegate.timeout_estimator.stage is 'The stage.';
comment on column tidegate.timeout_estimator.version is
  'How many times something was folded in; who comes with another version has been overtaken.';
comment on column tidegate.timeout_estimator.state is
  'normal (the timeout follows what is measured) or high_load (it is held at the best case, so that fewer calls are '
  'under way).';
comment on column tidegate.timeout_estimator.srtt_ns is
  'Smoothed latency, nanoseconds; null: nothing was measured, or not since high load began.';
comment on column tidegate.timeout_estimator.rttvar_ns is 'Its smoothed deviation, nanoseconds.';
comment on column tidegate.timeout_estimator.srto_ns is 'The smoothed timeout, nanoseconds.';
comment on column tidegate.timeout_estimator.k_margin is
  'How many times four deviations the timeout is above the smoothed latency.';
comment on column tidegate.timeout_estimator.timeout_ns is
  'The timeout that whoever starts from here begins with, nanoseconds.';
comment on column tidegate.timeout_estimator.failure_rate is
  'Share of calls that timed out, as the last closed interval judged it; null: there were too few yet, or high load '
  'has ended '
  'after its twelve.';
comment on column tidegate.timeout_estimator.load_rps is
  'Calls begun per second in the last closed interval, by all processes; null: none was closed.';
comment on column tidegate.timeout_estimator.min_ns is
  'The shortest answer of the current window of some intervals, nanoseconds.';
comment on column tidegate.timeout_estimator.min_before_ns is
  'The shortest answer of the window before it, nanoseconds.';
comment on column tidegate.timeout_estimator.usual_ns is
  'The shortest mean of an interval of the current window in which three of four calls were answered, nanoseconds; '
  'null: none.';
comment on column tidegate.timeout_estimator.usual_before_ns is 'Likewise of the window before it, nanoseconds.';
comment on column tidegate.timeout_estimator.min_age is 'How many intervals are in the current window.';
comment on column tidegate.timeout_estimator.high_load_intervals is 'For how many intervals high load has lasted.';
comment on column tidegate.timeout_estimator.high_load_rps is
  'The most calls begun per second in an interval since high load began; null until one is closed, and unless in high '
  'load.';
comment on column tidegate.timeout_estimator.interval_no is 'How many intervals are closed.';
comment on column tidegate.timeout_estimator.began_at is 'When the open interval began.';
comment on column tidegate.timeout_estimator.requests is 'Calls begun in the open interval, as far as folded.';
comment on column tidegate.timeout_estimator.responses is
  'Calls that were answered or timed out since the failure rate was last judged, as far as folded.';
comment on column tidegate.timeout_estimator.failures is 'Those of them that timed out.';
comment on column tidegate.timeout_estimator.late is
  'Those of them that were answered, and that the next narrower margin would have cut off.';
comment on column tidegate.timeout_estimator.sum_ns is 'How long they took together, nanoseconds.';
comment on column tidegate.timeout_estimator.updated_at is 'When something was last folded in.';

comment on table tidegate.timeout_report is
  'What each process last folded into an estimator; written by fold_timeouts, kept for an hour, or two intervals if '
  'that is longer.';
comment on column tidegate.timeout_report.kind is 'The kind.';
comment on column tidegate.timeout_report.stage is 'The stage.';
comment on column tidegate.timeout_report.worker is 'The process.';
comment on column tidegate.timeout_report.sequence is
  'The process''s own number of this report: who does not know whether a fold has arrived finds it here.';
comment on column tidegate.timeout_report.at is 'When it was folded.';
comment on column tidegate.timeout_report.requests is 'Calls begun.';
comment on column tidegate.timeout_report.responses is 'Calls that were answered or timed out.';
comment on column tidegate.timeout_report.failures is 'Those of them that timed out.';
comment on column tidegate.timeout_report.min_ns is 'The shortest answer, nanoseconds; null: there was none.';
comment on column tidegate.timeout_report.mean_ns is
  'How long they took on average, nanoseconds; null: there was none.';
comment on column tidegate.timeout_report.deviation_ns is
  'How far they were from the smoothed latency on average, nanoseconds.';
comment on column tidegate.timeout_report.load_rps is 'Calls begun per second.';
comment on column tidegate.timeout_report.in_flight is 'Calls under way.';
comment on column tidegate.timeout_report.reported is 'Calls that were answered or timed out, in all of its reports.';
