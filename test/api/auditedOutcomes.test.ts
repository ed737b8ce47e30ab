import { CommitOutcomeUnknownError } from '../../src/database';
import { DomainError } from '../../src/kernel/errors';
import type { AuditedEnd } from '../../src/api/pipeline/auditor';
import {
  SensorTemplateServiceClient,
  SensorTemplateServiceService,
  type NormalizedKey,
} from '../../src/gen/sensor_template/v2/sensor_template_service';
import { callFails, startEdge } from '../support/edge';

it.each([
  [
    'after a commit that may be on disk',
    'unknown',
    'database_unavailable',
    new CommitOutcomeUnknownError(Promise.resolve(), undefined),
  ],
  [
    'after a commit that stored nothing',
    'failed',
    'database_unavailable',
    new DomainError('unavailable', 'database_unavailable', 'nothing was stored'),
  ],
  ['after an internal error', 'failed', 'internal', new Error('boom')],
  [
    'after the caller disconnected',
    'failed',
    'cancelled',
    new DomainError('cancelled', 'cancelled', 'the client cancelled the call'),
  ],
  [
    'after a timeout',
    'failed',
    'deadline_exceeded',
    new DomainError('deadline_exceeded', 'deadline_exceeded', 'too late'),
  ],
  ['after a rejection', 'refused', 'name_taken', new DomainError('conflict', 'name_taken', 'there is one')],
])('records in the audit trail how a change ended %s', async (_, outcome, reason, error) => {
  const ends: AuditedEnd[] = [];
  const auditor = {
    begin: async () => ({ id: 'change' }),
    end: (_intent: unknown, end: AuditedEnd) => void ends.push(end),
    recordAttempt: () => {},
  };
  const { createNormalizedKey } = SensorTemplateServiceService;
  const edge = await startEdge(
    (server) =>
      server.addService(
        { createNormalizedKey },
        { createNormalizedKey: async (): Promise<NormalizedKey> => await Promise.reject(error) },
      ),
    { auditor },
  );
  edge.keys.add('key');
  const client = edge.client(SensorTemplateServiceClient);
  await callFails(
    client.createNormalizedKey.bind(client),
    { organizationId: '', name: 'n' },
    { 'x-api-key': 'key', 'x-organization-id': 'org-1' },
  );
  expect(ends).toMatchObject([{ outcome, reason }]);
  await edge.stop();
});
