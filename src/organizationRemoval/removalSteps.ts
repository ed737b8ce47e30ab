import { OrganizationRemovalRepository } from '../access';
import type { ConnectionService } from '../connections';
import { DashboardRemovalRepository } from '../dashboards';
import type { Db } from '../database';
import type { DeviceService } from '../devices';
import { ExecutionRemovalRepository } from '../executions';
import type { MediaService } from '../media';
import { TemplateRemovalRepository } from '../sensorTemplates';
import { TelemetryRemovalRepository, type BackgroundWork, type ReadingRemoval } from '../telemetry';

/** Removes one kind of data of a deleted organization; safe to repeat. */
export interface RemovalStep {
  /** For the log. */
  readonly name: string;
  /**
   * Resolves when no such data is left. Throws the reason of the signal when it aborts: then the next run continues.
   */
  readonly remove: (organizationId: string, work: BackgroundWork) => Promise<void>;
}

/** The dependencies of the steps. */
interface RemovalServices {
  readonly devices: Pick<DeviceService, 'deleteBatch'>;
  readonly connections: Pick<ConnectionService, 'deleteBatch'>;
  readonly media: Pick<MediaService, 'deleteBatch' | 'removeFiles'>;
  readonly readings: Pick<ReadingRemoval, 'removeAll'>;
}

/** A repository that removes about `max` rows of an organization per call. */
type RemovalRepository = new (db: Db) => { deleteBatch(organizationId: string, max: number): Promise<number> };

/**
 * Each device, connection or image has its own transaction, and perhaps files, so a batch between two pauses is small.
 */
const MAX_PER_BATCH = 4;

/** Creates all steps, in the required order: referring rows are removed before what they refer to. */
export function createRemovalSteps({ devices, connections, media, readings }: RemovalServices): readonly RemovalStep[] {
  return [
    {
      name: 'media',
      remove: removeInBatches(async (organizationId) => await media.deleteBatch(organizationId, MAX_PER_BATCH)),
    },
    { name: 'files', remove: async (organizationId) => await media.removeFiles(organizationId) },
    { name: 'dashboards', remove: removeRowsInSteps(DashboardRemovalRepository) },
    {
      name: 'devices',
      remove: removeInBatches(async (organizationId) => await devices.deleteBatch(organizationId, MAX_PER_BATCH)),
    },
    { name: 'readings', remove: async (organizationId, work) => await readings.removeAll(organizationId, work) },
    { name: 'executions', remove: removeRowsInSteps(ExecutionRemovalRepository) },
    // What was received from devices: connector keys, discovered devices and uplink ids.
    { name: 'telemetry', remove: removeRowsInSteps(TelemetryRemovalRepository) },
    {
      name: 'connections',
      remove: removeInBatches(async (organizationId) => await connections.deleteBatch(organizationId, MAX_PER_BATCH)),
    },
    { name: 'templates', remove: removeRowsInSteps(TemplateRemovalRepository) },
    { name: 'access', remove: removeRowsInSteps(OrganizationRemovalRepository) },
  ];
}

/**
 * Creates a step that calls `removeBatch` until it removes nothing, with a pause after each batch. `removeBatch`
 * returns how many resources it removed.
 */
function removeInBatches(removeBatch: (organizationId: string) => Promise<number>): RemovalStep['remove'] {
  return async (organizationId, work) => {
    while ((await removeBatch(organizationId)) > 0) await work.pauseIfDue();
  };
}

/**
 * Creates a step that removes rows in small transactions until none is left. `work.runStep` chooses the number of rows
 * and pauses after each transaction.
 */
function removeRowsInSteps(Repository: RemovalRepository): RemovalStep['remove'] {
  return async (organizationId, work) => {
    let removedCount: number;
    do {
      removedCount = await work.runStep(
        async (db, maxRows) => await new Repository(db).deleteBatch(organizationId, maxRows),
      );
    } while (removedCount > 0);
  };
}
