-- transition_rules: The state machine, as rows: a transition that is not listed here is impossible.
--
-- `docs/state-machine.md` draws the same. The table has these rows, too: a check of each transition reads them there,
-- and `doctor` compares both.
create or replace function tidegate.transition_rules()
  returns setof tidegate.transition_rule language sql stable parallel safe as $$
  select flow::tidegate.flow, from_status::tidegate.request_status, to_status::tidegate.request_status, cause
  from (values
    ('{decrypt}', null, 'queued', '{submitted}'),
    ('{proof,direct}', null, 'processing', '{submitted}'),
    ('{decrypt}', 'queued', 'processing', '{readiness_passed}'),
    ('{decrypt}', 'queued', 'timed_out', '{readiness_timed_out}'),
    ('{decrypt}', 'queued', 'failure', '{readiness_failed,cancelled,internal_error,deadline_exceeded}'),
    ('{decrypt,proof,direct}', 'processing', 'tx_in_flight', '{claimed}'),
    (
      '{decrypt,proof,direct}', 'processing', 'failure',
      '{send_refused,cancelled,internal_error,deadline_exceeded,attempts_exhausted}'
    ),
    ('{decrypt,proof,direct}', 'tx_in_flight', 'receipt_received', '{receipt}'),
    ('{direct}', 'tx_in_flight', 'completed', '{receipt}'),
    ('{decrypt,proof,direct}', 'tx_in_flight', 'processing', '{recovered,send_retried,released}'),
    (
      '{decrypt,proof,direct}', 'tx_in_flight', 'failure',
      '{rejected,outcome_unknown,cancelled,internal_error,deadline_exceeded,attempts_exhausted}'
    ),
    ('{decrypt,direct}', 'receipt_received', 'completed', '{response}'),
    ('{decrypt}', 'receipt_received', 'completed', '{threshold_reached}'),
    ('{proof}', 'receipt_received', 'completed', '{verdict_accepted}'),
    ('{proof}', 'receipt_received', 'failure', '{verdict_rejected}'),
    ('{decrypt,proof,direct}', 'receipt_received', 'failure', '{internal_error,rejected}'),
    ('{decrypt,proof,direct}', 'receipt_received', 'timed_out', '{response_timed_out}')
  ) as rule(flows, from_status, to_status, causes)
  cross join unnest(rule.flows::text[]) as flow
  cross join unnest(rule.causes::text[]) as cause;
$$;
select tidegate_internal.allow('transition_rules', '{reader,admin}');

delete from tidegate.transition_rule;
insert into tidegate.transition_rule select * from tidegate.transition_rules();
