import {
  type Execution,
  ListExecutionsRequest,
  type ListExecutionsResponse,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { QueryRangeRequest, type QueryRangeResponse } from '../../src/gen/sensorquery/v1/sensor_query_service';
import { toTimestamp } from '../../src/kernel/timestamps';
import { callUnary, type Clients } from '../crash/clients';
import type { Actuator } from '../crash/plant';
import type { Listed } from './judge';

const DAY_MS = 86_400_000;
const PAGE = { executions: 200, readings: 5000 };

/** Lists all executions of the commands of these devices. */
export async function listAllExecutions(
  { commands, metadata }: Clients,
  actuators: readonly Actuator[],
): Promise<Listed[]> {
  const all: Listed[] = [];
  for (const { deviceId, commandId } of actuators) {
    let page: ListExecutionsResponse | undefined;
    do {
      const request = ListExecutionsRequest.fromPartial({
        id: deviceId,
        limit: PAGE.executions,
        before: page?.nextCursor ?? '',
      });
      page = await callUnary<ListExecutionsResponse>((callback) =>
        commands.listExecutions(request, metadata, callback),
      );
      all.push(...page.items.filter((item: Execution) => item.commandId === commandId));
    } while (page.nextCursor !== undefined);
  }
  return all;
}

/** Reads all values of these sensors. */
export async function readValues({ readings, metadata }: Clients, sensorIds: readonly string[]): Promise<number[]> {
  const all: number[] = [];
  const query = {
    sensorIds: [...sensorIds],
    from: toTimestamp(Date.now() - DAY_MS),
    to: toTimestamp(Date.now() + DAY_MS),
    pageSize: PAGE.readings,
  };
  let page: QueryRangeResponse | undefined;
  do {
    const request = QueryRangeRequest.fromPartial({ ...query, pageToken: page?.nextPageToken ?? '' });
    page = await callUnary<QueryRangeResponse>((callback) => readings.queryRange(request, metadata, callback));
    all.push(...page.readings.flatMap(({ value }) => (value?.$case === 'number' ? [value.value] : [])));
  } while (page.nextPageToken !== '');
  return all;
}
