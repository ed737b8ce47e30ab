import { ListExecutionsRequest, type ListExecutionsResponse } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { ListDigitalDevicesRequest, type ListDigitalDevicesResponse } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { ListApiKeysRequest, ListAuditEventsRequest, ListMembersRequest, type ApiKey, type AuditEvent, type ListApiKeysResponse, type ListAuditEventsResponse, type ListMembersResponse } from '../../src/gen/organization_access_control/access_control_service';
import { toTimestamp } from '../../src/kernel/timestamps';
import { answer, type Clients } from './clients';

/** What a server has after its start. */
export interface Kept {
  /** Names of devices by id. */
  readonly devices: ReadonlyMap<string, string>;
  readonly keys: readonly ApiKey[];
  /** Names of members by id. */
  readonly members: ReadonlyMap<string, string>;
  /** What set off the executions of some devices. */
  readonly triggers: ReadonlySet<string>;
}

const MOST = 200;

/** Reads it; of the executions those of the devices whose name is one of `valves`. */
export async function readKept(clients: Clients, valves: ReadonlySet<string>): Promise<Kept> {
  const { devices: d, commands, access, metadata } = clients;
  const devices = new Map<string, string>();
  await pages(async (pageToken) => {
    const page = await answer<ListDigitalDevicesResponse>((answered) => d.listDigitalDevices(ListDigitalDevicesRequest.fromPartial({ limit: MOST, pageToken }), metadata, answered));
    for (const { id, name } of page.devices) devices.set(id, name);
    return page.nextPageToken;
  });
  const members = new Map<string, string>();
  await pages(async (pageToken) => {
    const page = await answer<ListMembersResponse>((answered) => access.listMembers(ListMembersRequest.fromPartial({ pageSize: MOST, pageToken }), metadata, answered));
    for (const { userId, name } of page.members) members.set(userId, name);
    return page.nextPageToken;
  });
  const keys: ApiKey[] = [];
  await pages(async (pageToken) => {
    const page = await answer<ListApiKeysResponse>((answered) => access.listApiKeys(ListApiKeysRequest.fromPartial({ pageSize: MOST, pageToken }), metadata, answered));
    keys.push(...page.apiKeys);
    return page.nextPageToken;
  });
  const triggers = new Set<string>();
  for (const [id] of [...devices].filter(([, name]) => valves.has(name))) {
    await pages(async (before) => {
      const page = await answer<ListExecutionsResponse>((answered) => commands.listExecutions(ListExecutionsRequest.fromPartial({ id, limit: MOST, before }), metadata, answered));
      for (const { triggerId } of page.items) triggers.add(triggerId ?? '');
      return page.nextCursor;
    });
  }
  return { devices, keys, members, triggers };
}

/** The events since then, by request id. */
export async function readEvents({ access, metadata }: Clients, from: number): Promise<Map<string, AuditEvent[]>> {
  const events: AuditEvent[] = [];
  await pages(async (pageToken) => {
    const page = await answer<ListAuditEventsResponse>((answered) => access.listAuditEvents(ListAuditEventsRequest.fromPartial({ pageSize: MOST, pageToken, from: toTimestamp(from) }), metadata, answered));
    events.push(...page.events);
    return page.nextPageToken;
  });
  return Map.groupBy(events, ({ requestId }) => requestId);
}

async function pages(read: (token: string) => Promise<string | undefined>): Promise<void> {
  for (let token = await read(''); token; token = await read(token));
}
