-- quantile: The time below which a share of equally likely, ascending times lies; null of none.
--
-- `times` ascend; each stands for the middle of its share, between them it is interpolated.
create or replace function tidegate.quantile(times double precision[], share double precision)
  returns double precision language plpgsql immutable parallel safe as $$
begin
  return (
    select times[least(n, greatest(1, floor(at)))::integer]
      + coalesce((at - floor(at)) * (times[floor(at)::integer + 1] - times[floor(at)::integer]), 0)
    from (select cardinality(times) as n, share * cardinality(times) + 0.5 as at) as place
  );
end;
$$;
select tidegate_internal.allow('quantile', '{reader,api,worker,admin}');
