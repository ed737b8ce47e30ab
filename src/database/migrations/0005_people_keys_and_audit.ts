import type { Knex } from 'knex';

/** Members and roles, API keys in full, organizations that are being deleted, and the audit trail. */
export const name = '0005_people_keys_and_audit';

/** As in 0001: times are bigint Unix milliseconds, booleans 0 or 1, JSON is text. */
export async function up(knex: Knex): Promise<void> {
  await organizations(knex);
  await people(knex);
  await keys(knex);
  await audit(knex);
  await executions(knex);
}

/** Drops all of it. Two organizations of one name keep it from coming back: the older schema wants names to be unique. */
export async function down(knex: Knex): Promise<void> {
  await executionPages(knex, ['organization_id', 'device_id', 'updated_at', 'id']);
  for (const table of ['audit_events', 'audit_pending', 'audit_chains', 'members', 'roles']) await knex.schema.dropTable(table);
  await knex.raw('drop index api_keys_owner');
  for (const column of ['note', 'restrictions', 'allowed_addresses', 'rotated_from', 'revision']) await knex.raw(`alter table api_keys drop column ${column}`);
  for (const column of ['removed_at', 'revision']) await knex.raw(`alter table users drop column ${column}`);
  await knex('organizations').whereNotNull('deleted_at').delete(); // the older schema would take them for living ones
  await knex.raw('drop index organizations_deleted');
  await knex.raw('drop index organizations_page');
  for (const column of ['deleted_at', 'emptied_at']) await knex.raw(`alter table organizations drop column ${column}`);
  await knex.schema.alterTable('organizations', (t) => t.unique(['name_folded'], { indexName: 'organizations_name' })); // on PostgreSQL a constraint, as it was
}

/** A name that is taken would tell that another organization is there: ids alone tell organizations apart. */
async function organizations(knex: Knex): Promise<void> {
  await knex.schema.alterTable('organizations', (t) => t.dropUnique(['name_folded'], 'organizations_name'));
  await knex.schema.alterTable('organizations', (t) => {
    t.bigInteger('deleted_at'); // it is no more; its data is being removed
    t.bigInteger('emptied_at'); // nothing is left of its data
    t.index(['created_at', 'id'], 'organizations_page');
  });
  await knex.raw('create index organizations_deleted on organizations (deleted_at) where deleted_at is not null and emptied_at is null');
}

async function people(knex: Knex): Promise<void> {
  await knex.schema.alterTable('users', (t) => {
    t.bigInteger('removed_at');
    t.integer('revision').notNullable().defaultTo(1);
  });
  await knex.schema.createTable('roles', (t) => {
    t.text('id').primary();
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.text('name').notNullable();
    t.text('name_folded').notNullable();
    t.text('description').notNullable();
    t.text('scopes').notNullable(); // JSON array
    t.integer('revision').notNullable();
    t.bigInteger('created_at').notNullable();
    t.bigInteger('updated_at').notNullable();
    t.unique(['organization_id', 'name_folded'], { indexName: 'roles_name' });
  });
  await knex.schema.createTable('members', (t) => {
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.text('user_id').notNullable().references('id').inTable('users');
    t.text('role_id').notNullable(); // owner, admin, operator, viewer, or the id of a role of the organization
    t.integer('revision').notNullable();
    t.bigInteger('created_at').notNullable();
    t.bigInteger('updated_at').notNullable();
    t.primary(['organization_id', 'user_id']);
    t.index(['user_id'], 'members_user');
    t.index(['organization_id', 'created_at', 'user_id'], 'members_page');
    t.index(['organization_id', 'role_id'], 'members_role');
  });
  await peopleOfKeys(knex);
}

interface OldKey {
  organization_id: string;
  owner_user_id: string;
  scopes: string;
  is_admin: number;
  revoked_at: number | string | null;
  expires_at: number | string | null;
  created_at: number | string;
}

// What the roles held when this was written.
const VIEWS = ['users:read', 'organizations:read', 'devices:read', 'sensors:read', 'commands:read', 'telemetry:read', 'connections:read', 'media:read'];
const OPERATES = [...VIEWS, 'commands:write'];

/** Until now a person could do what the keys could that are still good: each becomes what that takes. Whoever could make keys or change the organization owns it. */
async function peopleOfKeys(knex: Knex): Promise<void> {
  const now = Date.now();
  const all = await knex('api_keys').orderBy(['created_at', 'id']).select<OldKey[]>('organization_id', 'owner_user_id', 'scopes', 'is_admin', 'revoked_at', 'expires_at', 'created_at');
  for (const [organization, keys] of Map.groupBy(all, (key) => key.organization_id)) {
    const good = keys.filter(({ revoked_at, expires_at }) => revoked_at === null && (expires_at === null || Number(expires_at) > now));
    const people = [...Map.groupBy(good.length > 0 ? good : keys.slice(0, 1), (key) => key.owner_user_id)].map(([user, held]) => ({ user, held, role: roleFor(held) }));
    const oldest = people[0];
    if (oldest && people.every(({ role }) => role !== 'owner')) oldest.role = 'owner'; // somebody has to be
    for (const { user, held, role } of people) {
      const at = held[0]?.created_at ?? now;
      await knex('members').insert({ organization_id: organization, user_id: user, role_id: role, revision: 1, created_at: at, updated_at: at });
    }
  }
}

function roleFor(keys: readonly OldKey[]): string {
  const scopes = keys.flatMap((key) => JSON.parse(key.scopes) as string[]);
  if (keys.some((key) => key.is_admin === 1) || scopes.includes('api-keys:write') || scopes.includes('organizations:write')) return 'owner';
  if (scopes.every((scope) => VIEWS.includes(scope))) return 'viewer';
  return scopes.every((scope) => OPERATES.includes(scope)) ? 'operator' : 'admin';
}

async function keys(knex: Knex): Promise<void> {
  await knex.schema.alterTable('api_keys', (t) => {
    t.text('note').notNullable().defaultTo('');
    t.text('restrictions').notNullable().defaultTo(''); // JSON {deviceIds, connectionIds, commandIds}; empty: none
    t.text('allowed_addresses').notNullable().defaultTo('[]'); // JSON array of addresses and networks; none: all
    t.text('rotated_from'); // the key that it took the place of
    t.integer('revision').notNullable().defaultTo(1);
    t.index(['organization_id', 'owner_user_id'], 'api_keys_owner');
  });
}

/** So that a key which is limited to commands is shown its executions from the index alone, however many others there are. */
async function executions(knex: Knex): Promise<void> {
  await executionPages(knex, ['organization_id', 'device_id', 'updated_at', 'id', 'command_id']);
}

async function executionPages(knex: Knex, columns: readonly string[]): Promise<void> {
  await knex.raw('drop index executions_page');
  await knex.raw(`create index executions_page on executions (${columns.join(', ')})`);
}

/** A chain is an organization's id, or empty for what belongs to none. It outlives its organization. */
async function audit(knex: Knex): Promise<void> {
  await knex.schema.createTable('audit_chains', (t) => {
    t.text('chain').primary();
    t.bigInteger('first_seq').notNullable(); // of the oldest event that is kept
    t.text('first_previous').notNullable(); // the hash that it goes on from
    t.bigInteger('last_seq').notNullable();
    t.text('last_hash').notNullable();
  });
  // Calls that have begun to change something, until the chain has their end.
  await knex.schema.createTable('audit_pending', (t) => {
    t.text('id').primary();
    t.text('chain').notNullable();
    t.text('run').notNullable(); // the process that will tell how it ended
    t.bigInteger('at').notNullable();
    t.text('event').notNullable(); // JSON
  });
  await knex.schema.createTable('audit_events', (t) => {
    t.text('chain').notNullable();
    t.bigInteger('seq').notNullable();
    t.text('id').notNullable().unique({ indexName: 'audit_events_id' });
    t.bigInteger('at').notNullable(); // when it began
    t.text('actor').notNullable(); // key, command_line, server
    t.text('key_id'); // null: none, or an unknown one
    t.text('key_prefix').notNullable(); // empty: none was recognised
    t.text('user_id'); // null: nobody is known
    t.text('peer').notNullable(); // address without the port; of the command line the name of the machine's user
    t.text('method').notNullable();
    t.text('resource').notNullable(); // devices/<id>; empty: none
    t.text('subject').notNullable(); // the first two steps of the resource, to find it by
    t.text('fields').notNullable(); // JSON array: the names of what was given, never the values
    t.text('outcome').notNullable(); // succeeded, refused, failed, unknown
    t.text('reason').notNullable(); // why it was refused or failed; empty: it was not
    t.text('request_id').notNullable();
    t.integer('count').notNullable(); // of equal refused attempts
    t.text('hash').notNullable(); // SHA-256 of the hash before and of this, hex
    t.primary(['chain', 'seq']);
    t.index(['chain', 'at', 'seq'], 'audit_events_at');
    t.index(['chain', 'key_id', 'at', 'seq'], 'audit_events_key');
    t.index(['chain', 'user_id', 'at', 'seq'], 'audit_events_user');
    t.index(['chain', 'subject', 'at', 'seq'], 'audit_events_subject');
    t.index(['chain', 'outcome', 'at', 'seq'], 'audit_events_outcome');
    t.index(['chain', 'method', 'at', 'seq'], 'audit_events_method');
    t.index(['chain', 'request_id', 'at', 'seq'], 'audit_events_request');
  });
}
