//! Wrong versions of functions. Put into the database of a run, each shows that the checker finds what it breaks.

/// A wrong version of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Mutant {
    /// Any failure or timeout frees its key, executed or not
    KeyFreedAtEnd,
    /// What may have been executed counts as not executed
    UnknownIsNo,
}

impl Mutant {
    /// The statement that replaces the function.
    pub(crate) const fn sql(self) -> &'static str {
        match self {
            Self::KeyFreedAtEnd => {
                "create or replace function tidegate_internal.key_stands(
                   p_request tidegate.request, p_key tidegate.dedup, p_now timestamptz
                 )
                   returns boolean language sql stable as $$
                   select p_request.req_status not in ('failure', 'timed_out')
                     and p_now < tidegate_internal.window_end(p_key.first_seen, p_key.dedup_window)
                 $$;"
            }
            Self::UnknownIsNo => {
                "create or replace function tidegate.executed(request tidegate.request)
                   returns text language sql stable parallel safe
                 return case
                   when request.req_status = 'completed' then 'yes'
                   when request.req_status in ('failure', 'timed_out') then coalesce(
                     (select o.executed from tidegate.outcome as o
                      where o.request_id = request.id and o.executed <> 'unknown'),
                     'no'
                   )
                 end;"
            }
        }
    }
}
