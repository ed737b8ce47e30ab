import type { Knex } from 'knex';

/** Trigger ids of callers, remembered whatever they were answered: a new execution, or the one that was in flight already. */
export const name = '0007_execution_triggers';

const WEEK_MS = 7 * 24 * 3_600_000;

/** As in 0001: times are bigint Unix milliseconds. Trigger ids that executions held move to the new table. */
export async function up(knex: Knex): Promise<void> {
  await knex.schema.createTable('execution_triggers', (t) => {
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.text('device_id').notNullable();
    t.text('command_id').notNullable();
    t.text('trigger_key').notNullable(); // the trigger id that the caller gave
    t.text('execution_id').notNullable(); // the execution that the request was answered with
    t.text('params_hash').notNullable(); // SHA-256 of the RFC 8785 form of the params that came with it, hex
    t.bigInteger('expires_at').notNullable(); // from then on the trigger id may be used again
    t.primary(['organization_id', 'device_id', 'command_id', 'trigger_key']);
    t.index(['expires_at'], 'execution_triggers_expiry');
  });
  await knex.raw(
    `insert into execution_triggers (organization_id, device_id, command_id, trigger_key, execution_id, params_hash, expires_at)
      select organization_id, device_id, command_id, trigger_key, id, coalesce(trigger_hash, ''), enqueued_at + ${WEEK_MS} from executions
      where trigger_key is not null and command_id is not null`,
  );
  // A request is the duplicate of the newest one alone: nobody knows what the older ones of a device have in common with it.
  await knex.raw(
    `update executions set dedupe_key = null where dedupe_key is not null and exists (
      select 1 from executions n where n.device_id = executions.device_id and n.dedupe_key is not null and n.queue_order > executions.queue_order)`,
  );
  await knex.raw('drop index executions_trigger');
  for (const column of ['trigger_key', 'trigger_hash']) await knex.raw(`alter table executions drop column ${column}`);
}

/** Gives the trigger ids back to the executions that they made; those that were answered with another execution are lost. */
export async function down(knex: Knex): Promise<void> {
  await knex.schema.alterTable('executions', (t) => {
    t.text('trigger_key');
    t.text('trigger_hash');
  });
  for (const [column, source] of [
    ['trigger_hash', 'params_hash'],
    ['trigger_key', 'trigger_key'],
  ] as const) {
    await knex.raw(
      `update executions set ${column} = (select t.${source} from execution_triggers t
        where t.organization_id = executions.organization_id and t.device_id = executions.device_id
        and t.command_id = executions.command_id and t.trigger_key = executions.trigger_id and t.execution_id = executions.id)`,
    );
  }
  await knex.raw(
    'create unique index executions_trigger on executions (device_id, command_id, trigger_key) where trigger_key is not null',
  );
  await knex.schema.dropTable('execution_triggers');
}
