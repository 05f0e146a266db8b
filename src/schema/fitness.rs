//! What `migrate` refuses, before it changes anything.

use super::{MigrateError, Migrations, session::Session};

impl Session {
    /// Refuses a database on which a later migration would fail, and schemas of another owner.
    pub(super) async fn check_fitness(&mut self, sets: &[&Migrations]) -> Result<(), MigrateError> {
        let settings = "select current_setting('server_encoding'), current_setting('server_version_num')::integer,
                          current_setting('server_version'), current_setting('transaction_read_only') = 'on'";
        let (encoding, number, version, is_read_only): (String, i32, String, bool) =
            sqlx::query_as(settings).fetch_one(&mut self.connection).await?;
        let reason = if encoding != "UTF8" {
            format!(
                "the database's encoding is {encoding}, and payloads are JSON of any language: \
                 create database … template template0 encoding 'UTF8'"
            )
        } else if number < 140_000 {
            format!("this is PostgreSQL {version}, and 14 is the oldest that Tidegate runs on")
        } else if is_read_only {
            "the database is read-only: a standby, or set so".to_owned()
        } else if let Some(reason) = self.strange_owner(sets).await? {
            reason
        } else if let Some(reason) = self.missing_right().await? {
            reason
        } else {
            return Ok(());
        };
        Err(MigrateError::Unfit(reason))
    }

    /// Why this user may not be the one who makes objects in the schemas. An owner can replace what others have made in
    /// its schema, and so would get the rights of a user who calls that.
    async fn strange_owner(&mut self, sets: &[&Migrations]) -> Result<Option<String>, MigrateError> {
        let names: Vec<String> =
            sets.iter().flat_map(|set| [set.schema.to_owned(), format!("{}_internal", set.schema)]).collect();
        let found = sqlx::query_scalar(
            "select format('schema %I belongs to %I, and this is a session of %I: migrate as %2$I', n.nspname, o.rolname, current_user)
             from pg_namespace as n
             join pg_roles as o on o.oid = n.nspowner
             where n.nspname = any($1) and o.rolname <> current_user
             order by n.nspname
             limit 1",
        );
        Ok(found.bind(names).fetch_optional(&mut self.connection).await?)
    }

    /// What this user may not do in a schema pgmq that another made, and making a queue needs.
    async fn missing_right(&mut self) -> Result<Option<String>, MigrateError> {
        let missing = sqlx::query_scalar(
            "select format(
               case when e.oid is null
                 then 'schema pgmq belongs to %I, and is no extension: make it an extension, or give it and all that is in it to %I'
                 else 'schema pgmq belongs to %I, and %I may make no queue in it: as %1$I, '
                   'grant usage, create on schema pgmq to %2$I; grant select, insert, delete on pgmq.meta to %2$I'
               end,
               pg_get_userbyid(n.nspowner), current_user
             )
             from pg_namespace as n
             join pg_class as m on m.relnamespace = n.oid and m.relname = 'meta'
             left join pg_extension as e on e.extname = 'pgmq'
             where n.nspname = 'pgmq' and not (
               e.oid is null and pg_has_role(n.nspowner, 'usage')
               or e.oid is not null and has_schema_privilege(n.oid, 'usage') and has_schema_privilege(n.oid, 'create')
               and has_table_privilege(m.oid, 'select') and has_table_privilege(m.oid, 'insert')
               and has_table_privilege(m.oid, 'delete')
             )",
        );
        Ok(missing.fetch_optional(&mut self.connection).await?)
    }

    /// Refuses to replace a later build of a schema by this program's.
    pub(super) async fn check_build(&mut self, set: &Migrations) -> Result<(), MigrateError> {
        if !self.has_objects().await? {
            return Ok(());
        }
        let later: Option<(i32, String)> = sqlx::query_as(
            "select s.build, format('by version %s, on %s', s.version, s.applied_at::date)
             from tidegate.schema_state as s
             where s.schema = $1 and s.build > $2",
        )
        .bind(set.schema)
        .bind(set.build)
        .fetch_optional(&mut self.connection)
        .await?;
        later.map_or(Ok(()), |(build, applied)| {
            let (schema, own) = (set.schema, set.build);
            Err(MigrateError::Downgrade { schema, build, applied, own })
        })
    }
}
