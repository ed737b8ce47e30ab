import type { Db } from '../../database';
import { DeviceReachRepository } from '../../devices';
import type { DeviceReach } from '../../kernel/reach';
import { SERIES_AT_ONCE } from '../readings/readingQueryRepository';
import { type SeriesOfSensor, StreamScopeRepository } from '../readings/streamScopeRepository';
import type { StoredReading } from '../readings/storedReading';

/** What a stream is asked for. */
interface Asked {
  readonly sensorIds: readonly string[];
  readonly deviceIds: readonly string[];
  /** Of a limited key. */
  readonly reach?: DeviceReach | undefined;
}

/** The sensors that a stream is about: named ones and all of some devices, or all of the organization when neither are named; of a limited key what it reaches of them. */
export class StreamScope {
  private readonly repository: StreamScopeRepository;
  private readonly devices: DeviceReachRepository;
  private readonly known: Set<string>;
  /** Those that were looked up and are of no device of the scope. */
  private readonly strange = new Set<string>();
  /** For a limited key, the devices of sensors that were looked up; a sensor never changes its device. */
  private readonly owners = new Map<string, string>();

  private constructor(
    db: Db,
    private readonly organizationId: string,
    private readonly sensorIds: readonly string[],
    private readonly deviceIds: readonly string[],
    private readonly reach: DeviceReach | undefined,
  ) {
    this.repository = new StreamScopeRepository(db);
    this.devices = new DeviceReachRepository(db);
    this.known = new Set(sensorIds);
  }

  /** Throws `sensor_not_found`, `device_not_found`. */
  static async open(db: Db, organizationId: string, { sensorIds, deviceIds, reach }: Asked): Promise<StreamScope> {
    const scope = new StreamScope(db, organizationId, sensorIds, deviceIds, reach);
    await scope.repository.check(organizationId, sensorIds, deviceIds);
    return scope;
  }

  /** Whether there may be readings that match and are not shown. */
  get isLimited(): boolean {
    return this.reach !== undefined;
  }

  private get isAll(): boolean {
    return this.sensorIds.length + this.deviceIds.length === 0;
  }

  /** Whether a sensor is in it, or may be. */
  mayHold(sensorId: string): boolean {
    if (this.isAll || this.known.has(sensorId)) return true;
    return this.deviceIds.length > 0 && !this.strange.has(sensorId);
  }

  /** Only the readings that are in it. A sensor that was not seen before is looked up. */
  async only(readings: readonly StoredReading[]): Promise<readonly StoredReading[]> {
    if (this.isAll) return readings;
    const unknown = [...new Set(readings.map(({ sensorId }) => sensorId))].filter((id) => !this.known.has(id) && !this.strange.has(id));
    if (unknown.length > 0) {
      const owned = await this.repository.ownedBy(this.organizationId, unknown, this.deviceIds);
      for (const id of unknown) (owned.has(id) ? this.known : this.strange).add(id);
    }
    return readings.filter(({ sensorId }) => this.known.has(sensorId));
  }

  /** Only the readings whose device a limited key reaches now. */
  async reached(readings: readonly StoredReading[]): Promise<readonly StoredReading[]> {
    if (!this.reach || readings.length === 0) return readings;
    const inside = await this.sensorsInside(new Set(readings.map(({ sensorId }) => sensorId)), this.reach);
    return readings.filter(({ sensorId }) => inside.has(sensorId));
  }

  /** The series of its sensors, at most SERIES_AT_ONCE at once, each once. */
  async *series(): AsyncGenerator<readonly SeriesOfSensor[]> {
    if (!this.isAll) {
      yield* inPortions(await this.named());
      return;
    }
    if (this.reach) {
      for await (const deviceIds of this.repository.devicesInside(this.organizationId, this.reach)) yield* inPortions(await this.repository.ofDevices(this.organizationId, deviceIds));
      return;
    }
    let page = await this.repository.all(this.organizationId, 0, SERIES_AT_ONCE);
    while (page.length > 0) {
      yield page;
      page = page.length < SERIES_AT_ONCE ? [] : await this.repository.all(this.organizationId, page.at(-1)?.number ?? 0, SERIES_AT_ONCE);
    }
  }

  private async sensorsInside(sensorIds: ReadonlySet<string>, reach: DeviceReach): Promise<ReadonlySet<string>> {
    const unknown = [...sensorIds].filter((id) => !this.owners.has(id));
    if (unknown.length > 0) for (const { sensorId, deviceId } of await this.repository.owners(this.organizationId, unknown)) this.owners.set(sensorId, deviceId);
    const owners = [...sensorIds].map((id) => [id, this.owners.get(id) ?? ''] as const);
    const inside = await this.devices.inside(this.organizationId, reach, new Set(owners.map(([, deviceId]) => deviceId)));
    return new Set(owners.filter(([, deviceId]) => inside.has(deviceId)).map(([id]) => id));
  }

  private async named(): Promise<SeriesOfSensor[]> {
    const series = this.sensorIds.length === 0 ? [] : await this.repository.ofSensors(this.organizationId, this.sensorIds);
    for (const deviceId of this.deviceIds) series.push(...(await this.repository.ofDevice(this.organizationId, deviceId)));
    return [...new Map(series.map((each) => [each.number, each])).values()];
  }
}

function* inPortions(series: readonly SeriesOfSensor[]): Generator<readonly SeriesOfSensor[]> {
  for (let at = 0; at < series.length; at += SERIES_AT_ONCE) yield series.slice(at, at + SERIES_AT_ONCE);
}
