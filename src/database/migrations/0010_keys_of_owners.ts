import type { Knex } from 'knex';

/** Which keys act as an owner's while the person that they belong to is an owner. */
export const name = '0010_keys_of_owners';

/**
 * Who made the keys of before is not known. Those of people who are owners now stay keys of owners; the others were made while their people
 * were none, possibly by somebody else, and do not become keys of owners.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.schema.alterTable('api_keys', (t) => t.integer('can_act_as_owner').notNullable().defaultTo(0));
  const isOwner = knex('members as m').whereRaw("m.organization_id = api_keys.organization_id and m.user_id = api_keys.owner_user_id and m.role_id = 'owner'");
  await knex('api_keys').whereExists(isOwner).update({ can_act_as_owner: 1 });
}

/** Drops the column: every key of an owner acts as one again. */
export async function down(knex: Knex): Promise<void> {
  await knex.raw('alter table api_keys drop column can_act_as_owner');
}
