import type { ReferenceCheckers } from '../access';
import { createMissingCommandsQuery } from '../commands';
import { createMissingConnectionsQuery, createMissingGatewaysQuery } from '../connections';
import type { Database } from '../database';
import { createMissingDevicesQuery } from '../devices';

/** Creates the checks that the resources which an API key refers to exist. */
export function createReferenceCheckers(database: Database): ReferenceCheckers {
  return {
    gateways: createMissingGatewaysQuery(database),
    connections: createMissingConnectionsQuery(database),
    devices: createMissingDevicesQuery(database),
    commands: createMissingCommandsQuery(database),
  };
}
