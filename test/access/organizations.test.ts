import { status } from '@grpc/grpc-js';
import type { GetOrganizationRequest, Organization, UpdateOrganizationRequest } from '../../src/gen/organizations_service';
import { call, callFails, type SeenError } from '../support/edge';
import { engines } from '../support/engines';
import { startAccessRoom, type AccessRoom } from './accessRoom';

const NOTHING: UpdateOrganizationRequest = { id: '', organizationId: '', name: undefined, readingRetentionDays: undefined, thinReadingsAfterDays: undefined, etag: undefined };

describe.each(engines())('the organization of a key on $name', (engine) => {
  let room: AccessRoom;
  let id: string;
  beforeEach(async () => {
    room = await startAccessRoom(engine);
    ({ id } = room.first.organization);
  });
  afterEach(async () => await room.stop());

  const get = async (): Promise<Organization> => await call<GetOrganizationRequest, Organization>(room.organizationsClient.getOrganization.bind(room.organizationsClient), { id, organizationId: '' }, room.as());
  const update = async (change: Partial<UpdateOrganizationRequest>): Promise<Organization> =>
    await call<UpdateOrganizationRequest, Organization>(room.organizationsClient.updateOrganization.bind(room.organizationsClient), { ...NOTHING, id, ...change }, room.as());
  const updateFails = async (change: Partial<UpdateOrganizationRequest>): Promise<SeenError> => await callFails(room.organizationsClient.updateOrganization.bind(room.organizationsClient), { ...NOTHING, id, ...change }, room.as());

  it('is shown, with a year of readings to begin with', async () => {
    expect(await get()).toMatchObject({ id, name: 'Plantroom', readingRetentionDays: 365, thinReadingsAfterDays: 0, etag: '"1"' });
  });

  it('changes what is given and leaves the rest', async () => {
    room.clock.advance(5000);
    const changed = await update({ readingRetentionDays: 90, thinReadingsAfterDays: 30 });
    expect(changed).toMatchObject({ name: 'Plantroom', readingRetentionDays: 90, thinReadingsAfterDays: 30 });
    expect(changed.updatedAt).not.toEqual(changed.createdAt);
    expect(await update({ name: '  Halle Süd ' })).toMatchObject({ name: 'Halle Süd', readingRetentionDays: 90, thinReadingsAfterDays: 30 });
    expect(await update({ thinReadingsAfterDays: 0 })).toMatchObject({ readingRetentionDays: 90, thinReadingsAfterDays: 0 });
    expect(await get()).toMatchObject({ name: 'Halle Süd', readingRetentionDays: 90, thinReadingsAfterDays: 0 });
  });

  it.each([
    [{ readingRetentionDays: 0 }, ['readingRetentionDays']],
    [{ readingRetentionDays: 36_501, thinReadingsAfterDays: -1, name: ' ' }, ['name', 'readingRetentionDays', 'thinReadingsAfterDays']],
    [{ readingRetentionDays: 10, thinReadingsAfterDays: 11 }, ['thinReadingsAfterDays']],
    [{ thinReadingsAfterDays: 366 }, ['thinReadingsAfterDays']],
  ])('refuses %j', async (change, fields) => {
    const error = await updateFails(change);
    expect(error).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(error.fields.toSorted()).toEqual(fields);
    expect(await get()).toMatchObject({ readingRetentionDays: 365, thinReadingsAfterDays: 0 });
  });

  it('refuses to keep readings for less than it keeps them unthinned', async () => {
    await update({ thinReadingsAfterDays: 30 });
    expect(await updateFails({ readingRetentionDays: 29 })).toMatchObject({ reason: 'validation_failed', fields: ['thinReadingsAfterDays'] });
    expect(await update({ readingRetentionDays: 29, thinReadingsAfterDays: 29 })).toMatchObject({ readingRetentionDays: 29, thinReadingsAfterDays: 29 });
  });

  it('takes a name that another one has, so that nobody learns of it, and does not find another one', async () => {
    const other = await room.organizations.create('Nord');
    expect(await update({ name: 'Nord' })).toMatchObject({ name: 'Nord' });
    for (const foreign of [other.id, 'nobody']) {
      expect(await updateFails({ id: foreign, name: 'Mine' })).toMatchObject({ code: status.NOT_FOUND, reason: 'organization_not_found' });
      expect(await callFails(room.organizationsClient.getOrganization.bind(room.organizationsClient), { id: foreign, organizationId: '' }, room.as())).toMatchObject({ code: status.NOT_FOUND, reason: 'organization_not_found' });
    }
    expect(await room.organizations.list()).toMatchObject([{ name: 'Nord' }, { id: other.id, name: 'Nord' }]);
  });

  it('refuses a change on an etag that no longer fits, and takes one that does', async () => {
    const { etag } = await get();
    expect(await update({ name: 'Faster', etag })).toMatchObject({ etag: '"2"' });
    expect(await updateFails({ name: 'Slower', etag })).toMatchObject({ code: status.ABORTED, reason: 'changed_meanwhile', metadata: { etag: '"2"' } });
    expect(await updateFails({ readingRetentionDays: 10, thinReadingsAfterDays: 11, etag })).toMatchObject({ reason: 'changed_meanwhile' });
    await room.organizations.update(id, { name: 'By hand' });
    expect(await get()).toMatchObject({ name: 'By hand', etag: '"3"' });
    const ends = await Promise.allSettled(['a', 'b', 'c'].map(async (name) => await update({ name, etag: '"3"' })));
    expect(ends.flatMap((end) => (end.status === 'rejected' ? [(end.reason as { code: number }).code] : []))).toEqual([status.ABORTED, status.ABORTED]);
    expect(await get()).toMatchObject({ etag: '"4"' });
  });

  it('needs a scope of its own for each', async () => {
    const { key } = await room.key({ scopes: ['organizations:read'] });
    const refused = await callFails(room.organizationsClient.updateOrganization.bind(room.organizationsClient), { ...NOTHING, id, name: 'Mine' }, room.as(key));
    expect(refused).toMatchObject({ code: status.PERMISSION_DENIED, reason: 'scope_missing' });
    expect(await call<GetOrganizationRequest, Organization>(room.organizationsClient.getOrganization.bind(room.organizationsClient), { id, organizationId: '' }, room.as(key))).toMatchObject({ id });
  });
});
