import { createAccessRepositories, OrganizationDeletion } from '../access';
import { ConnectionRepository } from '../connections';
import { UnitOfWork, type Database } from '../database';
import { DeviceCounterRepository } from '../devices';
import type { Clock } from '../kernel/clock';

/** Creates the service that deletes organizations with all that belongs to them. */
export function createOrganizationDeletion(
  { database, clock }: { readonly database: Database; readonly clock: Clock },
  onDeleted: (organizationId: string) => void,
): OrganizationDeletion {
  const devices = new DeviceCounterRepository(database.db);
  const connections = new ConnectionRepository(database.db);
  const countHoldings = async (organizationId: string) => ({
    devices: await devices.countAll(organizationId),
    connections: await connections.count(organizationId),
  });
  return new OrganizationDeletion({
    uow: new UnitOfWork(database, createAccessRepositories),
    clock,
    countHoldings,
    onDeleted,
  });
}
