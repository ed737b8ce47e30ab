import { status } from '@grpc/grpc-js';
import type {
  GetOrganizationRequest,
  Organization,
  UpdateOrganizationRequest,
} from '../../src/gen/organizations_service';
import { call, callFails, type GrpcErrorInfo } from '../support/edge';
import { engines } from '../support/engines';
import { startAccessFixture, type AccessFixture } from './accessFixture';

const NOTHING: UpdateOrganizationRequest = {
  id: '',
  organizationId: '',
  name: undefined,
  readingRetentionDays: undefined,
  downsampleAfterDays: undefined,
  etag: undefined,
};

describe.each(engines())('the organization of a key on $name', (engine) => {
  let fixture: AccessFixture;
  let id: string;
  beforeEach(async () => {
    fixture = await startAccessFixture(engine);
    ({ id } = fixture.first.organization);
  });
  afterEach(async () => await fixture.stop());

  const get = async (): Promise<Organization> =>
    await call<GetOrganizationRequest, Organization>(
      fixture.organizationsClient.getOrganization.bind(fixture.organizationsClient),
      { id, organizationId: '' },
      fixture.as(),
    );
  const update = async (change: Partial<UpdateOrganizationRequest>): Promise<Organization> =>
    await call<UpdateOrganizationRequest, Organization>(
      fixture.organizationsClient.updateOrganization.bind(fixture.organizationsClient),
      { ...NOTHING, id, ...change },
      fixture.as(),
    );
  const updateFails = async (change: Partial<UpdateOrganizationRequest>): Promise<GrpcErrorInfo> =>
    await callFails(
      fixture.organizationsClient.updateOrganization.bind(fixture.organizationsClient),
      { ...NOTHING, id, ...change },
      fixture.as(),
    );

  it('is shown, with an initial retention of one year', async () => {
    expect(await get()).toMatchObject({
      id,
      name: 'Plantroom',
      readingRetentionDays: 365,
      downsampleAfterDays: 0,
      etag: '"1"',
    });
  });

  it('changes the given fields and keeps the others', async () => {
    fixture.clock.advance(5000);
    const changed = await update({ readingRetentionDays: 90, downsampleAfterDays: 30 });
    expect(changed).toMatchObject({ name: 'Plantroom', readingRetentionDays: 90, downsampleAfterDays: 30 });
    expect(changed.updatedAt).not.toEqual(changed.createdAt);
    expect(await update({ name: '  Halle Süd ' })).toMatchObject({
      name: 'Halle Süd',
      readingRetentionDays: 90,
      downsampleAfterDays: 30,
    });
    expect(await update({ downsampleAfterDays: 0 })).toMatchObject({
      readingRetentionDays: 90,
      downsampleAfterDays: 0,
    });
    expect(await get()).toMatchObject({ name: 'Halle Süd', readingRetentionDays: 90, downsampleAfterDays: 0 });
  });

  it.each([
    [{ readingRetentionDays: 0 }, ['readingRetentionDays']],
    [
      { readingRetentionDays: 36_501, downsampleAfterDays: -1, name: ' ' },
      ['downsampleAfterDays', 'name', 'readingRetentionDays'],
    ],
    [{ readingRetentionDays: 10, downsampleAfterDays: 11 }, ['downsampleAfterDays']],
    [{ downsampleAfterDays: 366 }, ['downsampleAfterDays']],
  ])('rejects %j', async (change, fields) => {
    const error = await updateFails(change);
    expect(error).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(error.fields.toSorted()).toEqual(fields);
    expect(await get()).toMatchObject({ readingRetentionDays: 365, downsampleAfterDays: 0 });
  });

  it('rejects a retention that is shorter than the time before downsampling', async () => {
    await update({ downsampleAfterDays: 30 });
    expect(await updateFails({ readingRetentionDays: 29 })).toMatchObject({
      reason: 'validation_failed',
      fields: ['downsampleAfterDays'],
    });
    expect(await update({ readingRetentionDays: 29, downsampleAfterDays: 29 })).toMatchObject({
      readingRetentionDays: 29,
      downsampleAfterDays: 29,
    });
  });

  it('accepts a name that another organization has without revealing it, and does not find that organization', async () => {
    const other = await fixture.organizations.create('Nord');
    expect(await update({ name: 'Nord' })).toMatchObject({ name: 'Nord' });
    for (const foreign of [other.id, 'nobody']) {
      expect(await updateFails({ id: foreign, name: 'Mine' })).toMatchObject({
        code: status.NOT_FOUND,
        reason: 'organization_not_found',
      });
      expect(
        await callFails(
          fixture.organizationsClient.getOrganization.bind(fixture.organizationsClient),
          { id: foreign, organizationId: '' },
          fixture.as(),
        ),
      ).toMatchObject({ code: status.NOT_FOUND, reason: 'organization_not_found' });
    }
    expect(await fixture.organizations.list()).toMatchObject([{ name: 'Nord' }, { id: other.id, name: 'Nord' }]);
  });

  it('rejects a change with an outdated etag, and accepts one with the current etag', async () => {
    const { etag } = await get();
    expect(await update({ name: 'Faster', etag })).toMatchObject({ etag: '"2"' });
    expect(await updateFails({ name: 'Slower', etag })).toMatchObject({
      code: status.ABORTED,
      reason: 'version_conflict',
      metadata: { etag: '"2"' },
    });
    expect(await updateFails({ readingRetentionDays: 10, downsampleAfterDays: 11, etag })).toMatchObject({
      reason: 'version_conflict',
    });
    await fixture.organizations.update(id, { name: 'By hand' });
    expect(await get()).toMatchObject({ name: 'By hand', etag: '"3"' });
    const outcomes = await Promise.allSettled(['a', 'b', 'c'].map(async (name) => await update({ name, etag: '"3"' })));
    expect(
      outcomes.flatMap((end) => (end.status === 'rejected' ? [(end.reason as { code: number }).code] : [])),
    ).toEqual([status.ABORTED, status.ABORTED]);
    expect(await get()).toMatchObject({ etag: '"4"' });
  });

  it('requires a separate scope for each method', async () => {
    const { key } = await fixture.createKey({ scopes: ['organizations:read'] });
    const refused = await callFails(
      fixture.organizationsClient.updateOrganization.bind(fixture.organizationsClient),
      { ...NOTHING, id, name: 'Mine' },
      fixture.as(key),
    );
    expect(refused).toMatchObject({ code: status.PERMISSION_DENIED, reason: 'insufficient_scope' });
    expect(
      await call<GetOrganizationRequest, Organization>(
        fixture.organizationsClient.getOrganization.bind(fixture.organizationsClient),
        { id, organizationId: '' },
        fixture.as(key),
      ),
    ).toMatchObject({ id });
  });
});
