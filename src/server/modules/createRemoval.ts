import type { AuditLog } from '../../access';
import type { ConnectionService } from '../../connections';
import type { DeviceService } from '../../devices';
import type { MediaService } from '../../media';
import { createRemovalSteps, OrganizationRemoval } from '../../organizationRemoval';
import type { ReadingRemoval } from '../../telemetry';
import type { Foundation } from '../foundation';

/** The modules whose data belongs to an organization. */
interface RemovalDependencies {
  readonly devices: DeviceService;
  readonly connections: ConnectionService;
  readonly media: MediaService;
  readonly readings: ReadingRemoval;
  readonly auditLog: AuditLog;
}

/** Creates the removal of the data of deleted organizations, which runs in the background. */
export function createRemoval(
  { database, clock, log }: Foundation,
  { devices, connections, media, readings, auditLog }: RemovalDependencies,
): OrganizationRemoval {
  return new OrganizationRemoval({
    database,
    clock,
    log,
    closeConnections: async (organizationId) => await connections.closeAll(organizationId),
    onRemoved: async (id, db) =>
      await auditLog.recordServerEventIn(db, id, 'organization removal', `organizations/${id}`),
    steps: createRemovalSteps({ devices, connections, media, readings }),
  });
}
