import type { Database } from '../../src/database';

/** How many records of each kind an organization gets. Each device has one sensor. */
export interface RowCounts {
  readonly devices: number;
  /** Per sensor. */
  readonly readings: number;
  /** Per device, with four events each. */
  readonly executions: number;
}

const named = (name: string) => ({ name, name_folded: name });

/** Inserts many records of an organization directly, because API calls would take minutes. */
export async function insertManyRows(
  { db: { knex } }: Database,
  organizationId: string,
  counts: RowCounts,
): Promise<void> {
  const own = { organization_id: organizationId, created_at: 1, updated_at: 1 };
  const id = (kind: string, at: number, of = 0): string => `${organizationId}-${kind}-${at}-${of}`;
  const insert = async (table: string, rows: readonly object[]): Promise<void> => {
    for (let at = 0; at < rows.length; at += 200) await knex(table).insert(rows.slice(at, at + 200));
  };
  const list = Array.from({ length: counts.devices }, (_, at) => at);
  const [connection, key, template] = [id('connection', 0), id('key', 0), id('template', 0)];
  await insert('connections', [
    {
      ...own,
      id: connection,
      connector_id: 'gateway',
      ...named('Much'),
      description: '',
      enabled: 1,
      configuration: '{}',
      policy: '{}',
      revision: 1,
    },
  ]);
  await insert('normalized_keys', [{ ...own, id: key, owner: organizationId, ...named('Much') }]);
  await insert('sensor_templates', [
    {
      ...own,
      id: template,
      owner: organizationId,
      key_name_id: key,
      sensor_type: 't',
      value_type: 'number',
      unit_measurement_id: '',
      description: '',
    },
  ]);
  await insert(
    'digital_devices',
    list.map((at) => ({ ...own, id: id('device', at), ...named(`Device ${at}`), revision: 1 })),
  );
  await insert('organization_counters', [{ organization_id: organizationId, name: 'devices', value: counts.devices }]);
  await insert(
    'physical_devices',
    list.map((at) => ({
      ...own,
      id: id('physical', at),
      device_id: id('device', at),
      connection_id: connection,
      client_device_id: String(at),
      configuration: '{}',
    })),
  );
  await insert(
    'sensors',
    list.map((at) => ({
      ...own,
      id: id('sensor', at),
      device_id: id('device', at),
      sensor_template_id: template,
      position: 0,
    })),
  );
  await insert(
    'connector_keys',
    list.flatMap((at) =>
      Array.from({ length: 20 }, (_, path) => ({
        connection_id: connection,
        client_device_id: String(at),
        name: `path ${path}`,
        organization_id: organizationId,
        value: '1',
        sampled_at: 1,
        seen_at: 1,
      })),
    ),
  );
  await insert(
    'reading_series',
    list.map((at) => ({ sensor_id: id('sensor', at), organization_id: organizationId })),
  );
  const series: { number: number }[] = await knex('reading_series')
    .where('organization_id', organizationId)
    .select('number');
  for (const { number } of series)
    await insert(
      'readings',
      Array.from({ length: counts.readings }, (_, at) => ({
        series: number,
        time: at * 1000,
        position: at * 1_024_000,
        kind: 1,
        num: at,
      })),
    );
  const executions = list.flatMap((device) =>
    Array.from({ length: counts.executions }, (_, of) => ({
      device: id('device', device),
      execution: id('execution', device, of),
    })),
  );
  await insert(
    'executions',
    executions.map(({ device, execution }) => executionRow(organizationId, device, execution)),
  );
  await insert(
    'execution_events',
    executions.flatMap(({ device, execution }, at) =>
      [1, 2, 3, 4].map((sequence) => ({
        organization_id: organizationId,
        position: 1_000_000 + at * 4 + sequence,
        execution_id: execution,
        device_id: device,
        sequence,
        time: 1,
        layer: 1,
        event: 'e',
        to_state: 's',
        source: 's',
        data: '{}',
      })),
    ),
  );
}

function executionRow(organizationId: string, deviceId: string, id: string): object {
  const ended = {
    state: 'verified',
    final: 1,
    version: 1,
    attempts: 1,
    holds_slot: 0,
    queue_order: 1,
    event_count: 4,
    finished_at: Date.now(),
    enqueued_at: 1,
    updated_at: 1,
  };
  const request = {
    command_name: 'c',
    command_revision: 1,
    trigger_id: id,
    params: '{}',
    params_hash: 'h',
    strategy: 'no_verification',
    expected: '[]',
    confirmed: 0,
    topic: '',
    policy: '{}',
    detail: '',
    detail_message: '',
  };
  return { id, organization_id: organizationId, device_id: deviceId, ...request, ...ended };
}
