import type { Db } from '../../database';
import { DeviceScopeRepository } from '../../devices';
import type { DeviceScope } from '../../kernel/resourceScope';
import { SERIES_BATCH_SIZE } from '../readings/readingQueryRepository';
import { type SensorSeries, StreamScopeRepository } from '../readings/streamScopeRepository';
import type { StoredReading } from '../readings/storedReading';
import { splitIntoBatches } from '../../kernel/splitIntoBatches';

/** The sensors and devices that a stream requests. */
interface RequestedScope {
  readonly sensorIds: readonly string[];
  readonly deviceIds: readonly string[];
  /** The keyScope of a limited API key; undefined for other keys. */
  readonly keyScope?: DeviceScope | undefined;
}

/**
 * The sensors in the scope of a stream: the named sensors and all sensors of the named devices, or all sensors of the
 * organization if nothing is named. A limited API key only gets the sensors of the devices that it may access.
 */
export class StreamScope {
  private readonly repository: StreamScopeRepository;
  private readonly deviceScopes: DeviceScopeRepository;
  /** Sensors that are known to be in the scope. */
  private readonly includedIds: Set<string>;
  /** Sensors that are known to be outside the scope. */
  private readonly excludedIds = new Set<string>();
  /** The device of each known sensor, for a limited API key. A sensor never changes its device. */
  private readonly deviceBySensor = new Map<string, string>();

  private constructor(
    db: Db,
    private readonly organizationId: string,
    private readonly sensorIds: readonly string[],
    private readonly deviceIds: readonly string[],
    private readonly keyScope: DeviceScope | undefined,
  ) {
    this.repository = new StreamScopeRepository(db);
    this.deviceScopes = new DeviceScopeRepository(db);
    this.includedIds = new Set(sensorIds);
  }

  /** Creates the scope. Throws `sensor_not_found`, `device_not_found`. */
  static async open(
    db: Db,
    organizationId: string,
    { sensorIds, deviceIds, keyScope }: RequestedScope,
  ): Promise<StreamScope> {
    const scope = new StreamScope(db, organizationId, sensorIds, deviceIds, keyScope);
    await scope.repository.assertExist(organizationId, sensorIds, deviceIds);
    return scope;
  }

  /** Whether the API key is limited, so that some readings may match and are not sent. */
  get isLimited(): boolean {
    return this.keyScope !== undefined;
  }

  /** Whether the stream covers the whole organization, because it names no sensors and no devices. */
  private get isAll(): boolean {
    return this.sensorIds.length + this.deviceIds.length === 0;
  }

  /** Whether a sensor is in the scope or not yet looked up. */
  mayInclude(sensorId: string): boolean {
    if (this.isAll || this.includedIds.has(sensorId)) return true;
    return this.deviceIds.length > 0 && !this.excludedIds.has(sensorId);
  }

  /** Returns the readings of the requested sensors and devices. Sensors that are not classified yet are looked up. */
  async filterByScope(readings: readonly StoredReading[]): Promise<readonly StoredReading[]> {
    if (this.isAll) return readings;
    const unclassifiedIds = [...new Set(readings.map(({ sensorId }) => sensorId))].filter(
      (id) => !this.includedIds.has(id) && !this.excludedIds.has(id),
    );
    if (unclassifiedIds.length > 0) {
      const idsInScope = await this.repository.filterByDevices(this.organizationId, unclassifiedIds, this.deviceIds);
      for (const id of unclassifiedIds) {
        if (idsInScope.has(id)) this.includedIds.add(id);
        else this.excludedIds.add(id);
      }
    }
    return readings.filter(({ sensorId }) => this.includedIds.has(sensorId));
  }

  /** Returns the readings whose device is in the current keyScope of a limited API key. */
  async filterByKeyScope(readings: readonly StoredReading[]): Promise<readonly StoredReading[]> {
    if (!this.keyScope || readings.length === 0) return readings;
    const accessibleIds = await this.findAccessibleSensors(
      new Set(readings.map(({ sensorId }) => sensorId)),
      this.keyScope,
    );
    return readings.filter(({ sensorId }) => accessibleIds.has(sensorId));
  }

  /** Lists the series of the sensors in the scope, each once, in batches of at most SERIES_BATCH_SIZE. */
  async *listSeries(): AsyncGenerator<readonly SensorSeries[]> {
    if (!this.isAll) {
      yield* splitIntoBatches(await this.listNamedSeries(), SERIES_BATCH_SIZE);
      return;
    }
    if (this.keyScope) {
      for await (const deviceIds of this.repository.listAccessibleDevices(this.organizationId, this.keyScope))
        yield* splitIntoBatches(await this.repository.listByDevices(this.organizationId, deviceIds), SERIES_BATCH_SIZE);
      return;
    }
    let page = await this.repository.listAll(this.organizationId, 0, SERIES_BATCH_SIZE);
    while (page.length > 0) {
      yield page;
      page =
        page.length < SERIES_BATCH_SIZE
          ? []
          : await this.repository.listAll(this.organizationId, page.at(-1)?.number ?? 0, SERIES_BATCH_SIZE);
    }
  }

  /** Returns the sensors whose device is in the scope of the API key now. Deleted sensors are omitted. */
  private async findAccessibleSensors(
    sensorIds: ReadonlySet<string>,
    keyScope: DeviceScope,
  ): Promise<ReadonlySet<string>> {
    const unknownIds = [...sensorIds].filter((id) => !this.deviceBySensor.has(id));
    if (unknownIds.length > 0)
      for (const { sensorId, deviceId } of await this.repository.listDevicesOfSensors(this.organizationId, unknownIds))
        this.deviceBySensor.set(sensorId, deviceId);
    const pairs = [...sensorIds].map((id) => [id, this.deviceBySensor.get(id) ?? ''] as const);
    const accessibleDeviceIds = await this.deviceScopes.filterInScope(
      this.organizationId,
      keyScope,
      new Set(pairs.map(([, deviceId]) => deviceId)),
    );
    return new Set(pairs.filter(([, deviceId]) => accessibleDeviceIds.has(deviceId)).map(([id]) => id));
  }

  /** Lists the series of the named sensors and of the named devices, each once. */
  private async listNamedSeries(): Promise<SensorSeries[]> {
    const series =
      this.sensorIds.length === 0 ? [] : await this.repository.listBySensors(this.organizationId, this.sensorIds);
    for (const deviceId of this.deviceIds)
      series.push(...(await this.repository.listByDevice(this.organizationId, deviceId)));
    return [...new Map(series.map((item) => [item.number, item])).values()];
  }
}
