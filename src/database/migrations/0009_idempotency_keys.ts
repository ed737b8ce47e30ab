import type { Knex } from 'knex';

/** Responses that are given again to a request with the same idempotency key. */
export const name = '0009_idempotency_keys';

/**
 * Times are bigint Unix milliseconds. There is no foreign key to organizations: on PostgreSQL it would lock the
 * organization's row in share mode at the start of every creating transaction, and two that go on to lock it for update
 * would deadlock.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.schema.createTable('idempotency_keys', (t) => {
    t.text('organization_id').notNullable();
    t.text('api_key_id').notNullable();
    t.text('key_hash').notNullable(); // HMAC of method and idempotency key, hex; keyed by the API key
    t.text('request_hash').notNullable(); // HMAC of the request, hex; keyed by the API key
    t.binary('response').notNullable(); // nonce, tag and ciphertext; readable with the API key alone
    t.bigInteger('created_at').notNullable();
    t.primary(['organization_id', 'api_key_id', 'key_hash']);
    t.index(['created_at'], 'idempotency_keys_created');
  });
}

/** Forgets all of them: a request that is sent again after this is carried out again. */
export async function down(knex: Knex): Promise<void> {
  await knex.schema.dropTable('idempotency_keys');
}
