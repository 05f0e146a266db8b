-- note_sent: Records what an endpoint answered to the sending of these signed transactions; `accepted` means that
-- it took the bytes. Returns how many there are.
--
-- Commits without waiting for the disk: the chain decides what was sent.
create or replace function evm.note_sent(p_hashes bytea[], p_answers text[])
  returns bigint language plpgsql volatile as $$
declare
  v_count bigint;
begin
  perform set_config('synchronous_commit', 'off', true);
  with sent as (
    update evm.attempt as a set sent_at = tidegate.clock(), answer = s.answer
    from unnest(p_hashes, p_answers) as s(hash, answer)
    where a.hash = s.hash
    returning a.wallet, a.nonce, s.answer
  ), taken as (
    update evm.tx as t set state = 'sent'
    from sent as s
    where t.wallet = s.wallet and t.nonce = s.nonce and t.state = 'signed' and s.answer = 'accepted'
  )
  select count(*) into v_count from sent;
  return v_count;
end;
$$;
