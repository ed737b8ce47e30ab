import { OrganizationRemovalRepository } from '../access';
import type { ConnectionService } from '../connections';
import type { Db } from '../database';
import type { DeviceService } from '../devices';
import { ExecutionRemovalRepository } from '../executions';
import type { MediaService } from '../media';
import { TemplateRemovalRepository } from '../sensorTemplates';
import { HeardRemovalRepository, type BackgroundWork, type ReadingUpkeep } from '../telemetry';

/** Removes one kind of what an organization leaves; safe to repeat. */
export interface RemovalStep {
  /** For the log. */
  readonly name: string;
  /** Resolves when nothing of it is left. Throws the reason of the signal when the work is told to end: then the next run goes on. */
  readonly remove: (organizationId: string, work: BackgroundWork) => Promise<void>;
}

/** What the steps are made of. */
export interface Rooms {
  readonly devices: Pick<DeviceService, 'removeSome'>;
  readonly connections: Pick<ConnectionService, 'removeSome'>;
  readonly media: Pick<MediaService, 'removeSome' | 'removeFiles'>;
  readonly readings: Pick<ReadingUpkeep, 'removeAllOf'>;
}

/** A repository that removes about `most` rows of an organization at a time. */
type Removal = new (db: Db) => { removeSome(organizationId: string, most: number): Promise<number> };

/** Each of these has its own transaction, and files perhaps, so only few of them go between two pauses. */
const FEW = 4;

/** All steps, in the order in which they have to be done: what refers to something goes before it. */
export function removalSteps({ devices, connections, media, readings }: Rooms): readonly RemovalStep[] {
  return [
    { name: 'pictures', remove: fewAtATime(async (organizationId) => await media.removeSome(organizationId, FEW)) },
    { name: 'files', remove: async (organizationId) => await media.removeFiles(organizationId) },
    { name: 'devices', remove: fewAtATime(async (organizationId) => await devices.removeSome(organizationId, FEW)) },
    { name: 'readings', remove: async (organizationId, work) => await readings.removeAllOf(organizationId, work) },
    { name: 'executions', remove: inSteps(ExecutionRemovalRepository) },
    { name: 'heard', remove: inSteps(HeardRemovalRepository) },
    { name: 'connections', remove: fewAtATime(async (organizationId) => await connections.removeSome(organizationId, FEW)) },
    { name: 'templates', remove: inSteps(TemplateRemovalRepository) },
    { name: 'access', remove: inSteps(OrganizationRemovalRepository) },
  ];
}

function fewAtATime(removeFew: (organizationId: string) => Promise<number>): RemovalStep['remove'] {
  return async (organizationId, work) => {
    while ((await removeFew(organizationId)) > 0) await work.breathe();
  };
}

function inSteps(Repository: Removal): RemovalStep['remove'] {
  return async (organizationId, work) => {
    while ((await work.step(async (db, rows) => await new Repository(db).removeSome(organizationId, rows))) > 0);
  };
}
