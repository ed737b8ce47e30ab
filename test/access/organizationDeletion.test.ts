import { status } from '@grpc/grpc-js';
import type {
  CreateOrganizationRequest,
  DeleteOrganizationRequest,
  DeleteOrganizationResponse,
  GetOrganizationRequest,
  ListOrganizationsRequest,
  ListOrganizationsResponse,
  Organization,
} from '../../src/gen/organizations_service';
import { SCOPES } from '../../src/kernel/scopes';
import { toTimestamp } from '../../src/kernel/timestamps';
import { call, callFails, type GrpcErrorInfo } from '../support/edge';
import { engines } from '../support/engines';
import { getPlan } from '../support/queryPlan';
import { OrganizationRepository } from '../../src/access/organizations/organizationRepository';
import { startAccessFixture, type AccessFixture } from './accessFixture';

const creation = (fields: Partial<CreateOrganizationRequest>): CreateOrganizationRequest => ({
  organizationId: '',
  name: 'Site',
  ownerUserId: '',
  ...fields,
});
const deletion = (fields: Partial<DeleteOrganizationRequest>): DeleteOrganizationRequest => ({
  id: '',
  organizationId: '',
  confirmation: '',
  name: '',
  ...fields,
});

describe.each(engines())('the organizations of an installation on $name', (engine) => {
  let fixture: AccessFixture;
  let admin: string;
  beforeAll(async () => {
    fixture = await startAccessFixture(engine);
    admin = (await fixture.createKey({ scopes: SCOPES, allConnections: true, isAdmin: true })).key;
  });
  afterAll(async () => await fixture.stop());

  const create = async (fields: Partial<CreateOrganizationRequest>): Promise<Organization> =>
    await call<CreateOrganizationRequest, Organization>(
      fixture.organizationsClient.createOrganization.bind(fixture.organizationsClient),
      creation(fields),
      fixture.as(admin),
    );
  const list = async (key: string, pageSize?: number, pageToken = ''): Promise<ListOrganizationsResponse> =>
    await call<ListOrganizationsRequest, ListOrganizationsResponse>(
      fixture.organizationsClient.listOrganizations.bind(fixture.organizationsClient),
      { organizationId: '', pageSize, pageToken },
      fixture.as(key),
    );
  const remove = async (fields: Partial<DeleteOrganizationRequest>): Promise<DeleteOrganizationResponse> =>
    await call<DeleteOrganizationRequest, DeleteOrganizationResponse>(
      fixture.organizationsClient.deleteOrganization.bind(fixture.organizationsClient),
      deletion(fields),
      fixture.as(admin),
    );
  const removeFails = async (fields: Partial<DeleteOrganizationRequest>): Promise<GrpcErrorInfo> =>
    await callFails(
      fixture.organizationsClient.deleteOrganization.bind(fixture.organizationsClient),
      deletion(fields),
      fixture.as(admin),
    );

  it('are created by an admin key only, with an owner', async () => {
    const other = await fixture.users.create('Lou', '');
    const ownOrganization = await create({ name: '  North plant ' });
    const otherOrganization = await create({ name: 'North plant', ownerUserId: other.id });
    expect(ownOrganization).toMatchObject({ name: 'North plant', readingRetentionDays: 365, etag: '"1"' });
    expect(await fixture.uow.repos.members.list(ownOrganization.id)).toMatchObject([
      { userId: fixture.first.user.id, roleId: 'owner' },
    ]);
    expect(await fixture.uow.repos.members.list(otherOrganization.id)).toMatchObject([
      { userId: other.id, roleId: 'owner' },
    ]);
    for (const method of ['createOrganization', 'deleteOrganization'] as const) {
      const refused = await callFails(
        fixture.organizationsClient[method].bind(fixture.organizationsClient) as never,
        method === 'createOrganization' ? creation({}) : deletion({ id: ownOrganization.id }),
        fixture.as(),
      );
      expect(refused).toMatchObject({ code: status.PERMISSION_DENIED, reason: 'admin_key_required' });
    }
    const wrong = async (fields: Partial<CreateOrganizationRequest>): Promise<GrpcErrorInfo> =>
      await callFails(
        fixture.organizationsClient.createOrganization.bind(fixture.organizationsClient),
        creation(fields),
        fixture.as(admin),
      );
    expect(await wrong({ name: ' ' })).toMatchObject({ reason: 'validation_failed', fields: ['name'] });
    expect(await wrong({ ownerUserId: 'nobody' })).toMatchObject({ code: status.NOT_FOUND, reason: 'user_not_found' });
  });

  it('are listed newest first in pages for an admin key, and other keys list their own only', async () => {
    for (let at = 0; at < 3; at += 1) {
      fixture.clock.advance(1000);
      await create({ name: `Page ${at}` });
    }
    const all = (await fixture.organizations.list()).toReversed().map(({ id }) => id);
    const ids: string[] = [];
    for (let token: string | undefined; token !== '';) {
      const page: ListOrganizationsResponse = await list(admin, 2, token);
      ids.push(...page.organizations.map(({ id }) => id));
      token = page.nextPageToken;
      if (token !== '') expect(page.organizations).toHaveLength(2);
    }
    expect(ids.toSorted()).toEqual(all.toSorted());
    expect(ids.slice(0, 3)).toEqual(all.slice(0, 3));
    const { nextPageToken } = await list(admin, 1);
    expect(await list(fixture.first.key)).toMatchObject({
      organizations: [{ id: fixture.first.organization.id }],
      nextPageToken: '',
    });
    expect(
      await callFails(
        fixture.organizationsClient.listOrganizations.bind(fixture.organizationsClient),
        { organizationId: '', pageSize: undefined, pageToken: nextPageToken },
        fixture.as(),
      ),
    ).toMatchObject({ reason: 'validation_failed', fields: ['pageToken'] });
    const plan = await getPlan(fixture.db.database, async (db) => {
      await new OrganizationRepository(db).listNewest({ createdAt: 5, id: 'x' }, 50);
      await new OrganizationRepository(db).listDeleted();
    });
    expect(plan).toMatch(/organizations_page/);
    expect(plan).toMatch(/organizations_deleted/);
    expect(plan).not.toMatch(/SCAN organizations"|Seq Scan on organizations/);
  });

  it('are deleted in two steps: a preview first, then the name and the confirmation', async () => {
    const { id } = await create({ name: 'Éphémère' });
    const { key } = await fixture.keys.create(id, {
      name: 'Key',
      scopes: ['organizations:read'],
      connectionIds: [],
      allConnections: false,
      expiresAt: undefined,
      isAdmin: false,
      ownerUserId: fixture.first.user.id,
    });
    const ownHeaders = { 'x-api-key': key, 'x-organization-id': id };
    const offer = await remove({ id, name: 'Éphémère' });
    expect(offer).toMatchObject({
      deleted: false,
      name: 'Éphémère',
      devices: 3,
      connections: 2,
      members: 1,
      apiKeys: 1,
    });
    const { confirmation } = offer;
    expect(await removeFails({ id, confirmation, name: 'éphémère' })).toMatchObject({
      reason: 'validation_failed',
      fields: ['name'],
    });
    expect(await removeFails({ id, confirmation })).toMatchObject({ reason: 'validation_failed', fields: ['name'] });
    expect(
      await call<GetOrganizationRequest, Organization>(
        fixture.organizationsClient.getOrganization.bind(fixture.organizationsClient),
        { id, organizationId: '' },
        ownHeaders,
      ),
    ).toMatchObject({ id });

    expect(await remove({ id, confirmation, name: 'Éphémère' })).toMatchObject({
      deleted: true,
      confirmation: '',
      name: '',
      devices: 0,
    });
    expect(
      await callFails(
        fixture.organizationsClient.getOrganization.bind(fixture.organizationsClient),
        { id, organizationId: '' },
        ownHeaders,
      ),
    ).toMatchObject({ code: status.UNAUTHENTICATED, reason: 'api_key_revoked' });
    for (const again of [{ id }, { id, confirmation, name: 'Éphémère' }])
      expect(await removeFails(again)).toMatchObject({ code: status.NOT_FOUND, reason: 'organization_not_found' });
    expect((await list(admin, 200)).organizations.map((one) => one.id)).not.toContain(id);
    await expect(fixture.organizations.getByIdOrOnly(id)).rejects.toMatchObject({ reason: 'organization_not_found' });
    await expect(fixture.organizations.update(id, { name: 'Back' })).rejects.toMatchObject({
      reason: 'organization_not_found',
    });
    expect(await fixture.uow.repos.members.list(id)).toEqual([]);
    expect(await fixture.uow.repos.organizations.listDeleted()).toMatchObject([{ id }]);
  });

  it('are not deleted with an expired, forged, foreign or outdated confirmation, nor by one of their keys', async () => {
    const [one, other] = [await create({ name: 'Twin' }), await create({ name: 'Twin' })];
    const { confirmation } = await remove({ id: one.id });
    const invalid = { code: status.FAILED_PRECONDITION, reason: 'confirmation_invalid' };
    expect(await removeFails({ id: other.id, confirmation, name: 'Twin' })).toMatchObject(invalid);
    expect(
      await removeFails({
        id: one.id,
        confirmation: confirmation.replace(/^./, (first) => (first === 'A' ? 'B' : 'A')),
        name: 'Twin',
      }),
    ).toMatchObject(invalid);
    expect(
      await removeFails({ id: one.id, confirmation: (await list(admin, 1)).nextPageToken, name: 'Twin' }),
    ).toMatchObject(invalid);
    await fixture.organizations.update(one.id, { readingRetentionDays: 30 });
    expect(await removeFails({ id: one.id, confirmation, name: 'Twin' })).toMatchObject(invalid);

    const next = await remove({ id: one.id });
    expect(next.confirmationExpiresAt).toEqual(toTimestamp(fixture.clock.now() + 600_000));
    fixture.clock.advance(600_000);
    expect(await removeFails({ id: one.id, confirmation: next.confirmation, name: 'Twin' })).toMatchObject(invalid);
    const own = fixture.first.organization.id;
    for (const fields of [{ id: own }, { id: own, confirmation: next.confirmation, name: 'Plantroom' }])
      expect(await removeFails(fields)).toMatchObject({
        code: status.FAILED_PRECONDITION,
        reason: 'cannot_delete_own_organization',
      });
    expect((await list(admin, 200)).organizations.map(({ id }) => id)).toEqual(
      expect.arrayContaining([one.id, other.id, own]),
    );
  });
});
