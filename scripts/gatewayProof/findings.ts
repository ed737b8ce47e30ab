import { type Execution, ListExecutionsRequest, type ListExecutionsResponse } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { QueryRangeRequest, type QueryRangeResponse } from '../../src/gen/sensorquery/v1/sensor_query_service';
import { toTimestamp } from '../../src/kernel/timestamps';
import { answer, type Clients } from '../crash/clients';
import type { Actuator } from '../crash/plant';
import type { Listed } from './judge';

const DAY_MS = 86_400_000;
const PAGE = { executions: 200, readings: 5000 };

/** Every execution of the commands of these devices that the server lists. */
export async function listAll({ commands, metadata }: Clients, actuators: readonly Actuator[]): Promise<Listed[]> {
  const all: Listed[] = [];
  for (const { deviceId, commandId } of actuators) {
    let page: ListExecutionsResponse | undefined;
    do {
      const request = ListExecutionsRequest.fromPartial({ id: deviceId, limit: PAGE.executions, before: page?.nextCursor ?? '' });
      page = await answer<ListExecutionsResponse>((answered) => commands.listExecutions(request, metadata, answered));
      all.push(...page.items.filter((item: Execution) => item.commandId === commandId));
    } while (page.nextCursor !== undefined);
  }
  return all;
}

/** Every value that these sensors ever had. */
export async function readValues({ readings, metadata }: Clients, sensorIds: readonly string[]): Promise<number[]> {
  const all: number[] = [];
  const asked = { sensorIds: [...sensorIds], from: toTimestamp(Date.now() - DAY_MS), to: toTimestamp(Date.now() + DAY_MS), pageSize: PAGE.readings };
  let page: QueryRangeResponse | undefined;
  do {
    const request = QueryRangeRequest.fromPartial({ ...asked, pageToken: page?.nextPageToken ?? '' });
    page = await answer<QueryRangeResponse>((answered) => readings.queryRange(request, metadata, answered));
    all.push(...page.readings.flatMap(({ value }) => (value?.$case === 'number' ? [value.value] : [])));
  } while (page.nextPageToken !== '');
  return all;
}
