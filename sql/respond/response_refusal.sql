-- response_refusal: Why a response does not fit a request of this flow, or null when it does.
--
-- An expression, which PostgreSQL inlines: only if it is declared stable, as `format` is.
create or replace function tidegate_internal.response_refusal(
  p_flow tidegate.flow, p_threshold integer, p_part text, p_accept boolean
)
  returns text language sql stable
return (
  case
    when p_flow = 'proof' and p_accept is null then 'a proof is answered by a verdict: say accept => true or false'
    when p_flow <> 'proof' and p_accept is not null then 'only a proof is answered by a verdict'
    when p_flow = 'decrypt' and p_threshold > 1 and p_part is null then
      format('this request collects %s shares: name the share with part => …', p_threshold)
    when p_flow <> 'decrypt' and p_part is not null then 'only a decrypt is answered in shares'
  end
);
