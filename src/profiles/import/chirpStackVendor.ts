import { posix } from 'node:path';
import { findRegion } from '../regions';
import { readChirpStackCodec } from './chirpStackCodec';
import { DEVICE_KEYS, PROFILE_KEYS, describeUnknownKeys, VENDOR_KEYS } from './chirpStackKeys';
import { CodecCache } from './codecCache';
import {
  readFileName,
  findFileName,
  toId,
  isTable,
  readList,
  getField,
  formatShortText,
  formatText,
  type Table,
} from './fields';
import type { YieldToEventLoop } from './yieldToEventLoop';
import { ImportWarnings, formatNames } from './importWarnings';
import { ModelProfiles, type Firmware, type ProfileParts } from './modelProfiles';
import { normalizeRadioSettings, type RadioSettings } from './radio';
import { readToml, restoreVersionTexts } from './readToml';
import {
  MAX_DESCRIPTION_LENGTH,
  MAX_NAME_LENGTH,
  type ImportWarning,
  type ReadModel,
  type ReadProfile,
  type ReadVendor,
} from './readVendor';
import { getOrCreate, type FileResult, type VendorFiles } from './vendorFiles';
import type { ImportQuota } from './importQuota';

const MAX_MODELS = 5000;

/** The contents of a profile file. */
interface RegionProfile {
  readonly region: string;
  readonly radio: RadioSettings;
  readonly usesCayenneLpp: boolean;
}

/** Reads one vendor of chirpstack-device-profiles. */
export class ChirpStackVendor {
  private readonly warnings = new ImportWarnings();
  private readonly profileByPath = new Map<string, FileResult<RegionProfile>>();
  private readonly codecs: CodecCache;

  constructor(
    private readonly files: VendorFiles,
    private readonly vendorFolder: string,
    private readonly id: string,
    private readonly quota: ImportQuota,
  ) {
    this.codecs = new CodecCache(quota);
  }

  /** Reads everything usable of the vendor. */
  async read(yieldNow: YieldToEventLoop): Promise<ReadVendor> {
    const file = posix.join(this.vendorFolder, 'vendor.toml');
    const section = this.readSection(file, 'vendor', VENDOR_KEYS);
    if ('problem' in section) {
      this.warnings.markAllIncompletelyRead();
      this.warnings.add(section.problem.file, `${section.problem.reason}; no model of ${this.id} is imported`);
    }
    const vendor = 'value' in section ? section.value : {};
    const models = 'value' in section ? await this.readModels(vendor, file, yieldNow) : [];
    return {
      id: this.id,
      name: formatShortText(getField(vendor, 'name'), MAX_NAME_LENGTH) || this.id,
      otherNames: listOtherNames(vendor),
      models,
      codecs: this.codecs.listUsedBy(models),
      incompleteModels: this.warnings.getIncompletelyRead(),
      warnings: this.warnings.list(this.vendorFolder),
    };
  }

  /** Reads the section `name` of a file and warns about unknown keys. */
  private readSection(path: string, name: string, keys: Parameters<typeof describeUnknownKeys>[1]): FileResult<Table> {
    const table = this.files.readTable(path, readToml);
    if ('problem' in table) return table;
    const unknown = describeUnknownKeys(table.value, keys);
    if (unknown !== undefined) this.warnings.add(path, unknown);
    const inner = getField(table.value, name);
    return isTable(inner) ? { value: inner } : { problem: { file: path, reason: `has no table [${name}]` } };
  }

  /** Reads the devices of the vendor as models. Stops when the quota of the vendor is exceeded. */
  private async readModels(vendor: Table, file: string, yieldNow: YieldToEventLoop): Promise<ReadModel[]> {
    const names = this.listDevices(vendor, file);
    if (names.length > MAX_MODELS) {
      this.warnings.markAllIncompletelyRead();
      this.warnings.add(file, `lists ${names.length} devices; only the first ${MAX_MODELS} are imported`);
    }
    const modelById = new Map<string, ReadModel | undefined>(); // undefined: the device has no usable profile
    for (const name of names.slice(0, MAX_MODELS)) {
      await yieldNow();
      if (this.quota.exceededLimit !== undefined) break;
      const id = toId(posix.basename(name));
      if ('problem' in id) this.warnings.add(file, `lists a device whose name ${id.problem}; it is not imported`);
      else if (modelById.has(id.value))
        this.warnings.add(file, `lists the device ${JSON.stringify(id.value)} more than once; the first is imported`);
      else modelById.set(id.value, this.readModel(id.value, name, file));
    }
    if (this.quota.exceededLimit !== undefined) this.warnings.addLimitExceeded(file, this.quota.exceededLimit);
    return [...modelById.values()].filter((model) => model !== undefined);
  }

  /** Lists the devices of `vendor.toml` without the file extension; all devices in the folder if it has no list. */
  private listDevices(vendor: Table, file: string): string[] {
    const present = this.files.listWithoutExtension(posix.join(this.vendorFolder, 'devices'), '.toml');
    const devices = getField(vendor, 'devices');
    if (devices === undefined) return present;
    if (!Array.isArray(devices)) {
      this.warnings.add(file, 'has `devices` that is not a list of files; all files in devices/ are imported');
      return present;
    }
    const names = devices.flatMap((name) => findFileName(name)?.replace(/\.toml$/, '') ?? []);
    if (names.length < devices.length)
      this.warnings.add(file, 'lists devices that are not file names; they are not imported');
    const listed = new Set(names);
    const unlisted = present.filter((name) => !listed.has(name));
    if (unlisted.length > 0)
      this.warnings.add(file, `does not list all files in devices/; not imported: ${formatNames(unlisted)}`);
    return names;
  }

  /**
   * Reads the device file `name` as the model `id`; undefined, with a warning, if it has no usable profile. `from`: the
   * file that lists the device.
   */
  private readModel(id: string, name: string, from: string): ReadModel | undefined {
    const path = this.files.resolvePath(posix.join(this.vendorFolder, 'devices'), `${name}.toml`, from);
    if ('problem' in path) return this.skipModel(id, path.problem);
    const device = this.readSection(path.value, 'device', DEVICE_KEYS);
    if ('problem' in device) return this.skipModel(id, device.problem);
    const profiles = this.readProfiles(id, path.value, device.value);
    const getText = (field: string, max: number): string => formatShortText(getField(device.value, field), max);
    return profiles.length === 0
      ? undefined
      : {
          id,
          name: getText('name', MAX_NAME_LENGTH) || id,
          description: getText('description', MAX_DESCRIPTION_LENGTH),
          otherNames: listOtherNames(device.value),
          profiles,
        };
  }

  /** Adds the warning that a device is not imported, and marks its model as incompletely read. */
  private skipModel(id: string, { file, reason }: ImportWarning): undefined {
    this.warnings.add(file, `${reason}; the device ${JSON.stringify(id)} is not imported`);
    this.warnings.markIncompletelyRead(id);
  }

  /** Reads the profiles of all firmware versions of a device. */
  private readProfiles(modelId: string, file: string, device: Table): ReadProfile[] {
    const profiles = new ModelProfiles(modelId, file, this.warnings, this.quota);
    const listedFirmware = readList(device, 'firmware', () =>
      profiles.warnAboutSkippedPart(
        'has `firmware` that is not a list; write [[device.firmware]] before each firmware',
      ),
    );
    const firmwareTables = listedFirmware.filter(isTable);
    if (firmwareTables.length < listedFirmware.length)
      profiles.warnAboutSkippedPart('has items of `firmware` that are not tables; they are not imported');
    const resolvedVersions = profiles.resolveFirmware(
      this.readVersions(firmwareTables, file).map((version) => ({ version, hardware: undefined })),
    );
    for (const [index, table] of firmwareTables.entries()) {
      const resolvedFirmware = resolvedVersions[index];
      if (resolvedFirmware)
        this.addFirmware(resolvedFirmware, table, {
          file,
          usesCayenneLpp: declaresCayenneLpp(device) || declaresCayenneLpp(table),
          profiles,
        });
    }
    return profiles.list();
  }

  /** Reads the firmware versions. A number without quotes is read as the text in the file: 1.10 must not become 1.1. */
  private readVersions(firmwareTables: readonly Table[], file: string): readonly unknown[] {
    const versions = firmwareTables.map((table) => getField(table, 'version'));
    const text = versions.every((version) => typeof version === 'string') ? undefined : this.files.readText(file);
    return text && 'value' in text ? restoreVersionTexts(versions, text.value) : versions;
  }

  /** Adds the profiles that a firmware version lists, one per region. */
  private addFirmware(
    resolvedFirmware: Firmware,
    table: Table,
    {
      file,
      usesCayenneLpp,
      profiles,
    }: { readonly file: string; readonly usesCayenneLpp: boolean; readonly profiles: ModelProfiles },
  ): void {
    const listed = readList(table, 'profiles', () =>
      profiles.warnAboutSkippedPart(
        `has profiles of firmware ${JSON.stringify(resolvedFirmware.version)} that are not a list of files; they are not imported`,
      ),
    );
    for (const name of listed) {
      if (this.quota.exceededLimit !== undefined) return;
      const profile = this.findProfile(name, file);
      if ('problem' in profile) profiles.addSkippedProfile(profile.problem);
      else
        profiles.add(resolvedFirmware, profile.value.region, {
          radio: { value: profile.value.radio },
          ...this.readRuntime(table, file, usesCayenneLpp || profile.value.usesCayenneLpp),
        });
    }
  }

  /** Reads how payloads are decoded: by Cayenne LPP, which network servers have built in, by a codec, or not at all. */
  private readRuntime(
    firmware: Table,
    file: string,
    usesCayenneLpp: boolean,
  ): Pick<ProfileParts, 'codec' | 'payloadCodecRuntime'> {
    if (usesCayenneLpp) return { codec: { value: undefined }, payloadCodecRuntime: 'CAYENNE_LPP' };
    const codec = this.readCodec(firmware, file);
    return { codec, payloadCodecRuntime: 'value' in codec && codec.value === undefined ? 'NONE' : 'JS' };
  }

  /** Reads a profile file once, however many firmware versions list it. `from`: the file that lists it. */
  private findProfile(listedName: unknown, from: string): FileResult<RegionProfile> {
    const name = findFileName(listedName);
    if (name === undefined) return { problem: { file: from, reason: 'lists a profile without a name' } };
    const path = this.files.resolvePath(
      posix.join(this.vendorFolder, 'profiles'),
      name.endsWith('.toml') ? name : `${name}.toml`,
      from,
    );
    return 'problem' in path ? path : getOrCreate(this.profileByPath, path.value, () => this.readProfile(path.value));
  }

  /** Reads the region and the radio settings of a profile file. */
  private readProfile(path: string): FileResult<RegionProfile> {
    const table = this.readSection(path, 'profile', PROFILE_KEYS);
    if ('problem' in table) return table;
    const readField = (name: string): unknown => getField(table.value, name);
    const regionName = formatText(readField('region'));
    const region = regionName === undefined ? undefined : findRegion(regionName);
    if (region === undefined)
      return {
        problem: {
          file: path,
          reason:
            regionName === undefined
              ? 'has no region'
              : `has the region ${JSON.stringify(regionName.slice(0, 64))}, which is unknown`,
        },
      };
    const fields = {
      macVersion: readField('mac_version'),
      regParamsRevision: readField('reg_params_revision'),
      supportsOtaa: readField('supports_otaa'),
      supportsClassB: readField('supports_class_b'),
      supportsClassC: readField('supports_class_c'),
      uplinkInterval: readField('uplink_interval'),
      deviceStatusReqInterval: readField('device_status_req_interval'),
      flushQueueOnActivate: readField('flush_queue_on_activate'),
    };
    const radio = normalizeRadioSettings(fields, (reason) => this.warnings.add(path, reason));
    return 'problem' in radio
      ? { problem: { file: path, reason: radio.problem } }
      : { value: { region, radio: radio.value, usesCayenneLpp: declaresCayenneLpp(table.value) } };
  }

  /** Reads the codec that a firmware version names. Returns its name in the vendor; undefined if it names none. */
  private readCodec(firmware: Table, from: string): FileResult<string | undefined> {
    const name = readFileName(firmware, 'codec');
    if ('problem' in name) return { problem: { file: from, reason: name.problem } };
    if (name.value === undefined) return { value: undefined };
    const folder = posix.join(this.vendorFolder, 'codecs');
    const path = this.files.resolvePath(folder, name.value.endsWith('.js') ? name.value : `${name.value}.js`, from);
    return 'problem' in path
      ? path
      : this.codecs.getName(
          path.value,
          posix
            .relative(folder, path.value)
            .replace(/\.js$/, '')
            .replace(/^(\.\.\/)+/, ''), // a codec outside the folder `codecs`
          () => readChirpStackCodec(this.files, path.value, this.warnings),
        );
  }
}

/** Returns whether a table says that the network server decodes the payload itself. */
function declaresCayenneLpp(table: Table): boolean {
  return [getField(table, 'codec'), getField(table, 'payload_codec_runtime')].some(
    (value) => formatText(value)?.toUpperCase() === 'CAYENNE_LPP',
  );
}

/** Returns the identifier that the repository uses, as a list; empty if there is none. */
function listOtherNames(table: Table): string[] {
  const id = formatShortText(getField(table, 'id'), MAX_NAME_LENGTH);
  return id === '' ? [] : [id];
}
