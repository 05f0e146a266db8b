-- plain_span: A length of time in the sentences of `explain`: seconds with a tenth, or hours, minutes and seconds.
create or replace function tidegate_internal.plain_span(p_span interval)
  returns text language sql stable
return (
  case
    when p_span < interval '1 minute' then round(greatest(extract(epoch from p_span), 0), 1) || ' s'
    else date_trunc('second', p_span)::text
  end
);
