import { CommitUnknown } from '../../src/database';
import { DomainError } from '../../src/kernel/errors';
import type { AuditedEnd } from '../../src/rpc/auditor';
import { SensorTemplateServiceClient, SensorTemplateServiceService, type NormalizedKey } from '../../src/gen/sensor_template/v2/sensor_template_service';
import { callFails, startEdge } from '../support/edge';

it.each([
  ['that may be on disk all the same', 'unknown', 'database_unavailable', new CommitUnknown(Promise.resolve(), undefined)],
  ['of which nothing was stored', 'failed', 'database_unavailable', new DomainError('unavailable', 'database_unavailable', 'nothing was stored')],
  ['that the server could not do', 'failed', 'internal', new Error('boom')],
  ['whose caller went away', 'failed', 'cancelled', new DomainError('cancelled', 'cancelled', 'the caller ended the call')],
  ['that took too long', 'failed', 'deadline_exceeded', new DomainError('deadline_exceeded', 'deadline_exceeded', 'too late')],
  ['that may not be', 'refused', 'name_taken', new DomainError('conflict', 'name_taken', 'there is one')],
])('tells the audit trail how a change ended %s', async (_, outcome, reason, error) => {
  const ends: AuditedEnd[] = [];
  const auditor = { begin: async () => ({ id: 'change' }), end: (_intent: unknown, end: AuditedEnd) => void ends.push(end), note: () => {} };
  const { createNormalizedKey } = SensorTemplateServiceService;
  const edge = await startEdge((server) => server.add({ createNormalizedKey }, { createNormalizedKey: async (): Promise<NormalizedKey> => await Promise.reject(error) }), { auditor });
  edge.keys.add('key');
  const client = edge.client(SensorTemplateServiceClient);
  await callFails(client.createNormalizedKey.bind(client), { organizationId: '', name: 'n' }, { 'x-api-key': 'key', 'x-organization-id': 'org-1' });
  expect(ends).toMatchObject([{ outcome, reason }]);
  await edge.stop();
});
