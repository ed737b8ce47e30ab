import {
  ListExecutionsRequest,
  type ListExecutionsResponse,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import {
  ListDigitalDevicesRequest,
  type ListDigitalDevicesResponse,
} from '../../src/gen/digitaldevice/v2/digital_device_service';
import {
  ListApiKeysRequest,
  ListAuditEventsRequest,
  ListMembersRequest,
  type ApiKey,
  type AuditEvent,
  type ListApiKeysResponse,
  type ListAuditEventsResponse,
  type ListMembersResponse,
} from '../../src/gen/organization_access_control/access_control_service';
import { toTimestamp } from '../../src/kernel/timestamps';
import { callUnary, type Clients } from './clients';

/** What the server has stored, read after its restart. */
export interface StoredState {
  /** Names of devices by id. */
  readonly devices: ReadonlyMap<string, string>;
  readonly keys: readonly ApiKey[];
  /** Names of members by id. */
  readonly members: ReadonlyMap<string, string>;
  /** Trigger ids of the executions of some devices. */
  readonly triggers: ReadonlySet<string>;
}

const PAGE_SIZE = 200;

/** Reads the stored state. `valveNames`: the names of the devices whose executions are read. */
export async function readStoredState(clients: Clients, valveNames: ReadonlySet<string>): Promise<StoredState> {
  const { devices: deviceClient, commands, access, metadata } = clients;
  const devices = new Map<string, string>();
  await readPages(async (pageToken) => {
    const page = await callUnary<ListDigitalDevicesResponse>((callback) =>
      deviceClient.listDigitalDevices(
        ListDigitalDevicesRequest.fromPartial({ limit: PAGE_SIZE, pageToken }),
        metadata,
        callback,
      ),
    );
    for (const { id, name } of page.devices) devices.set(id, name);
    return page.nextPageToken;
  });
  const members = new Map<string, string>();
  await readPages(async (pageToken) => {
    const page = await callUnary<ListMembersResponse>((callback) =>
      access.listMembers(ListMembersRequest.fromPartial({ pageSize: PAGE_SIZE, pageToken }), metadata, callback),
    );
    for (const { userId, name } of page.members) members.set(userId, name);
    return page.nextPageToken;
  });
  const keys: ApiKey[] = [];
  await readPages(async (pageToken) => {
    const page = await callUnary<ListApiKeysResponse>((callback) =>
      access.listApiKeys(ListApiKeysRequest.fromPartial({ pageSize: PAGE_SIZE, pageToken }), metadata, callback),
    );
    keys.push(...page.apiKeys);
    return page.nextPageToken;
  });
  const triggers = new Set<string>();
  for (const [id] of [...devices].filter(([, name]) => valveNames.has(name))) {
    await readPages(async (before) => {
      const page = await callUnary<ListExecutionsResponse>((callback) =>
        commands.listExecutions(
          ListExecutionsRequest.fromPartial({ id, limit: PAGE_SIZE, before }),
          metadata,
          callback,
        ),
      );
      for (const { triggerId } of page.items) triggers.add(triggerId ?? '');
      return page.nextCursor;
    });
  }
  return { devices, keys, members, triggers };
}

/** Reads the audit events since `from` (Unix milliseconds), grouped by request id. */
export async function readEvents({ access, metadata }: Clients, from: number): Promise<Map<string, AuditEvent[]>> {
  const events: AuditEvent[] = [];
  await readPages(async (pageToken) => {
    const page = await callUnary<ListAuditEventsResponse>((callback) =>
      access.listAuditEvents(
        ListAuditEventsRequest.fromPartial({ pageSize: PAGE_SIZE, pageToken, from: toTimestamp(from) }),
        metadata,
        callback,
      ),
    );
    events.push(...page.events);
    return page.nextPageToken;
  });
  return Map.groupBy(events, ({ requestId }) => requestId);
}

async function readPages(read: (token: string) => Promise<string | undefined>): Promise<void> {
  for (let token = await read(''); token; token = await read(token));
}
