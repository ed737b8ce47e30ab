import { status } from '@grpc/grpc-js';
import type { CreateOrganizationRequest, DeleteOrganizationRequest, DeleteOrganizationResponse, GetOrganizationRequest, ListOrganizationsRequest, ListOrganizationsResponse, Organization } from '../../src/gen/organizations_service';
import { SCOPES } from '../../src/kernel/scopes';
import { toTimestamp } from '../../src/kernel/timestamps';
import { call, callFails, type SeenError } from '../support/edge';
import { engines } from '../support/engines';
import { planOf } from '../support/planOf';
import { OrganizationRepository } from '../../src/access/organizations/organizationRepository';
import { startAccessRoom, type AccessRoom } from './accessRoom';

const creation = (fields: Partial<CreateOrganizationRequest>): CreateOrganizationRequest => ({ organizationId: '', name: 'Site', ownerUserId: '', ...fields });
const deletion = (fields: Partial<DeleteOrganizationRequest>): DeleteOrganizationRequest => ({ id: '', organizationId: '', confirmation: '', name: '', ...fields });

describe.each(engines())('the organizations of an installation on $name', (engine) => {
  let room: AccessRoom;
  let admin: string;
  beforeAll(async () => {
    room = await startAccessRoom(engine);
    admin = (await room.key({ scopes: SCOPES, allConnections: true, isAdmin: true })).key;
  });
  afterAll(async () => await room.stop());

  const create = async (fields: Partial<CreateOrganizationRequest>): Promise<Organization> =>
    await call<CreateOrganizationRequest, Organization>(room.organizationsClient.createOrganization.bind(room.organizationsClient), creation(fields), room.as(admin));
  const list = async (key: string, pageSize?: number, pageToken = ''): Promise<ListOrganizationsResponse> =>
    await call<ListOrganizationsRequest, ListOrganizationsResponse>(room.organizationsClient.listOrganizations.bind(room.organizationsClient), { organizationId: '', pageSize, pageToken }, room.as(key));
  const remove = async (fields: Partial<DeleteOrganizationRequest>): Promise<DeleteOrganizationResponse> =>
    await call<DeleteOrganizationRequest, DeleteOrganizationResponse>(room.organizationsClient.deleteOrganization.bind(room.organizationsClient), deletion(fields), room.as(admin));
  const removeFails = async (fields: Partial<DeleteOrganizationRequest>): Promise<SeenError> => await callFails(room.organizationsClient.deleteOrganization.bind(room.organizationsClient), deletion(fields), room.as(admin));

  it('are created by an admin key alone, with an owner', async () => {
    const other = await room.users.create('Lou', '');
    const mine = await create({ name: '  North plant ' });
    const theirs = await create({ name: 'North plant', ownerUserId: other.id });
    expect(mine).toMatchObject({ name: 'North plant', readingRetentionDays: 365, etag: '"1"' });
    expect(await room.uow.repos.members.list(mine.id)).toMatchObject([{ userId: room.first.user.id, roleId: 'owner' }]);
    expect(await room.uow.repos.members.list(theirs.id)).toMatchObject([{ userId: other.id, roleId: 'owner' }]);
    for (const method of ['createOrganization', 'deleteOrganization'] as const) {
      const refused = await callFails(room.organizationsClient[method].bind(room.organizationsClient) as never, method === 'createOrganization' ? creation({}) : deletion({ id: mine.id }), room.as());
      expect(refused).toMatchObject({ code: status.PERMISSION_DENIED, reason: 'admin_key_required' });
    }
    const wrong = async (fields: Partial<CreateOrganizationRequest>): Promise<SeenError> => await callFails(room.organizationsClient.createOrganization.bind(room.organizationsClient), creation(fields), room.as(admin));
    expect(await wrong({ name: ' ' })).toMatchObject({ reason: 'validation_failed', fields: ['name'] });
    expect(await wrong({ ownerUserId: 'nobody' })).toMatchObject({ code: status.NOT_FOUND, reason: 'user_not_found' });
  });

  it('are listed newest first in pages for an admin key, and for any other key its own alone', async () => {
    for (let at = 0; at < 3; at += 1) {
      room.clock.advance(1000);
      await create({ name: `Page ${at}` });
    }
    const all = (await room.organizations.list()).toReversed().map(({ id }) => id);
    const ids: string[] = [];
    for (let token: string | undefined; token !== ''; ) {
      const page: ListOrganizationsResponse = await list(admin, 2, token);
      ids.push(...page.organizations.map(({ id }) => id));
      token = page.nextPageToken;
      if (token !== '') expect(page.organizations).toHaveLength(2);
    }
    expect(ids.toSorted()).toEqual(all.toSorted());
    expect(ids.slice(0, 3)).toEqual(all.slice(0, 3));
    const { nextPageToken } = await list(admin, 1);
    expect(await list(room.first.key)).toMatchObject({ organizations: [{ id: room.first.organization.id }], nextPageToken: '' });
    expect(await callFails(room.organizationsClient.listOrganizations.bind(room.organizationsClient), { organizationId: '', pageSize: undefined, pageToken: nextPageToken }, room.as())).toMatchObject({ reason: 'validation_failed', fields: ['pageToken'] });
    const plan = await planOf(room.db.database, async (db) => {
      await new OrganizationRepository(db).listNewest({ createdAt: 5, id: 'x' }, 50);
      await new OrganizationRepository(db).listDeleted();
    });
    expect(plan).toMatch(/organizations_page/);
    expect(plan).toMatch(/organizations_deleted/);
    expect(plan).not.toMatch(/SCAN organizations"|Seq Scan on organizations/);
  });

  it('are deleted in two steps: what would go, then its name and the confirmation', async () => {
    const { id } = await create({ name: 'Éphémère' });
    const { key } = await room.keys.create(id, { name: 'Key', scopes: ['organizations:read'], connectionIds: [], allConnections: false, expiresAt: undefined, isAdmin: false, ownerUserId: room.first.user.id });
    const theirs = { 'x-api-key': key, 'x-organization-id': id };
    const offer = await remove({ id, name: 'Éphémère' });
    expect(offer).toMatchObject({ deleted: false, name: 'Éphémère', devices: 3, connections: 2, members: 1, apiKeys: 1 });
    const { confirmation } = offer;
    expect(await removeFails({ id, confirmation, name: 'éphémère' })).toMatchObject({ reason: 'validation_failed', fields: ['name'] });
    expect(await removeFails({ id, confirmation })).toMatchObject({ reason: 'validation_failed', fields: ['name'] });
    expect(await call<GetOrganizationRequest, Organization>(room.organizationsClient.getOrganization.bind(room.organizationsClient), { id, organizationId: '' }, theirs)).toMatchObject({ id });

    expect(await remove({ id, confirmation, name: 'Éphémère' })).toMatchObject({ deleted: true, confirmation: '', name: '', devices: 0 });
    expect(await callFails(room.organizationsClient.getOrganization.bind(room.organizationsClient), { id, organizationId: '' }, theirs)).toMatchObject({ code: status.UNAUTHENTICATED, reason: 'api_key_revoked' });
    for (const again of [{ id }, { id, confirmation, name: 'Éphémère' }]) expect(await removeFails(again)).toMatchObject({ code: status.NOT_FOUND, reason: 'organization_not_found' });
    expect((await list(admin, 200)).organizations.map((one) => one.id)).not.toContain(id);
    await expect(room.organizations.pick(id)).rejects.toMatchObject({ reason: 'organization_not_found' });
    await expect(room.organizations.update(id, { name: 'Back' })).rejects.toMatchObject({ reason: 'organization_not_found' });
    expect(await room.uow.repos.members.list(id)).toEqual([]);
    expect(await room.uow.repos.organizations.listDeleted()).toMatchObject([{ id }]);
  });

  it('are not deleted by a confirmation that is old, forged, of another one or of before a change, nor by a key of theirs', async () => {
    const [one, other] = [await create({ name: 'Twin' }), await create({ name: 'Twin' })];
    const { confirmation } = await remove({ id: one.id });
    const invalid = { code: status.FAILED_PRECONDITION, reason: 'confirmation_invalid' };
    expect(await removeFails({ id: other.id, confirmation, name: 'Twin' })).toMatchObject(invalid);
    expect(await removeFails({ id: one.id, confirmation: `${confirmation.slice(0, -2)}AA`, name: 'Twin' })).toMatchObject(invalid);
    expect(await removeFails({ id: one.id, confirmation: (await list(admin, 1)).nextPageToken, name: 'Twin' })).toMatchObject(invalid);
    await room.organizations.update(one.id, { readingRetentionDays: 30 });
    expect(await removeFails({ id: one.id, confirmation, name: 'Twin' })).toMatchObject(invalid);

    const next = await remove({ id: one.id });
    expect(next.confirmationExpiresAt).toEqual(toTimestamp(room.clock.now() + 600_000));
    room.clock.advance(600_000);
    expect(await removeFails({ id: one.id, confirmation: next.confirmation, name: 'Twin' })).toMatchObject(invalid);
    const own = room.first.organization.id;
    for (const fields of [{ id: own }, { id: own, confirmation: next.confirmation, name: 'Plantroom' }]) expect(await removeFails(fields)).toMatchObject({ code: status.FAILED_PRECONDITION, reason: 'own_organization' });
    expect((await list(admin, 200)).organizations.map(({ id }) => id)).toEqual(expect.arrayContaining([one.id, other.id, own]));
  });
});
