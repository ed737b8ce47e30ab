import { posix } from 'node:path';
import { findRegion } from '../regions';
import { CodecCache } from './codecCache';
import { readFileName, findFileName, toId, isTable, readList, getField, formatShortText, type Table } from './fields';
import type { YieldToEventLoop } from './yieldToEventLoop';
import { ImportWarnings } from './importWarnings';
import { readLorawanDevicesCodec } from './lorawanDevicesCodec';
import { ModelProfiles, type Firmware, type ProfileParts } from './modelProfiles';
import type { Outcome } from '../../kernel/outcome';
import { normalizeRadioSettings, type RadioSettings } from './radio';
import { readYaml } from '../../kernel/readYaml';
import {
  MAX_DESCRIPTION_LENGTH,
  MAX_NAME_LENGTH,
  type ImportWarning,
  type ReadModel,
  type ReadVendor,
} from './readVendor';
import { getOrCreate, type FileResult, type VendorFiles } from './vendorFiles';
import type { ImportQuota } from './importQuota';

const MAX_MODELS = 5000;

/** A vendor in the index of the repository. */
export interface ListedVendor {
  readonly id: string;
  readonly name: string;
  /** The name of its folder. */
  readonly folder: string;
}

/** Parses a YAML file; numbers are read as the text in the file. */
export const readFields = (text: string): Outcome<unknown> => readYaml(text, 'as written');

/** Reads one vendor of lorawan-devices. `vendorsPath` is the path of the folder with the vendor folders. */
export class LorawanDevicesVendor {
  private readonly warnings = new ImportWarnings();
  private readonly radioByPath = new Map<string, FileResult<RadioSettings>>();
  /** The ids of the listed devices, by file. */
  private readonly deviceIdByFile = new Map<string, string>();
  private readonly codecs: CodecCache;
  private readonly vendorFolder: string;

  constructor(
    private readonly files: VendorFiles,
    private readonly vendorsPath: string,
    private readonly vendor: ListedVendor,
    private readonly quota: ImportQuota,
  ) {
    this.codecs = new CodecCache(quota);
    this.vendorFolder = posix.join(vendorsPath, vendor.folder);
  }

  /** Reads everything usable of the vendor. */
  async read(yieldNow: YieldToEventLoop): Promise<ReadVendor> {
    const models = await this.readModels(yieldNow);
    return {
      id: this.vendor.id,
      name: this.vendor.name,
      otherNames: [],
      models,
      codecs: this.codecs.listUsedBy(models),
      incompleteModels: this.warnings.getIncompletelyRead(),
      warnings: this.warnings.list(this.vendorFolder),
    };
  }

  /** Reads the devices of the index as models. Stops when the quota of the vendor is exceeded. */
  private async readModels(yieldNow: YieldToEventLoop): Promise<ReadModel[]> {
    const file = posix.join(this.vendorFolder, 'index.yaml');
    const index = this.files.readTable(file, readFields);
    if ('problem' in index) {
      this.warnings.add(index.problem.file, `${index.problem.reason}; no model of ${this.vendor.id} is imported`);
      this.warnings.markAllIncompletelyRead();
      return [];
    }
    const modelById = new Map<string, ReadModel>();
    for (const name of this.listDevices(index.value, file)) {
      await yieldNow();
      if (this.quota.exceededLimit === undefined) this.addListedDevice(name, file, modelById);
    }
    if (this.quota.exceededLimit !== undefined) this.warnings.addLimitExceeded(file, this.quota.exceededLimit);
    return [...modelById.values()];
  }

  /** Lists the devices of the index, at most MAX_MODELS. */
  private listDevices(index: Table, file: string): readonly unknown[] {
    const names = readList(index, 'endDevices', () =>
      this.warnings.add(file, 'has `endDevices` that is not a list of names; no model is imported'),
    );
    if (names.length > MAX_MODELS || !Array.isArray(getField(index, 'endDevices')))
      this.warnings.markAllIncompletelyRead();
    if (names.length > MAX_MODELS)
      this.warnings.add(file, `lists ${names.length} devices; only the first ${MAX_MODELS} are imported`);
    return names.slice(0, MAX_MODELS);
  }

  /** Reads a device of the index into `modelById`, unless its id or its file was listed before. */
  private addListedDevice(listedName: unknown, indexFile: string, modelById: Map<string, ReadModel>): void {
    const name = findFileName(listedName) ?? '';
    const id = toId(name.replace(/\.yaml$/, ''));
    if ('problem' in id) this.warnings.add(indexFile, `lists a device whose name ${id.problem}; it is not imported`);
    else if (modelById.has(id.value))
      this.warnings.add(
        indexFile,
        `lists the device ${JSON.stringify(id.value)} more than once; the first is imported`,
      );
    else {
      const path = this.files.resolvePath(this.vendorFolder, withYamlExtension(name), indexFile);
      const firstId = 'value' in path ? this.deviceIdByFile.get(path.value) : undefined;
      if ('problem' in path) this.skipModel(id.value, path.problem);
      else if (firstId === undefined) this.readDevice(id.value, path.value, modelById);
      else
        this.warnings.add(
          indexFile,
          `lists the file of the device ${JSON.stringify(firstId)} more than once; the first is imported`,
        );
    }
  }

  /** Reads a device file as a model. */
  private readDevice(id: string, path: string, modelById: Map<string, ReadModel>): void {
    this.deviceIdByFile.set(path, id);
    const device = this.files.readTable(path, readFields);
    if ('problem' in device) this.skipModel(id, device.problem);
    else this.addModel(id, path, device.value, modelById);
  }

  /** Adds the warning that a device is not imported, and marks its model as incompletely read. */
  private skipModel(id: string, { file, reason }: ImportWarning): void {
    this.warnings.add(file, `${reason}; the device ${JSON.stringify(id)} is not imported`);
    this.warnings.markIncompletelyRead(id);
  }

  /** Adds a model with its profiles, unless it has no usable profile. */
  private addModel(id: string, file: string, device: Table, modelById: Map<string, ReadModel>): void {
    const profiles = new ModelProfiles(id, file, this.warnings, this.quota);
    const firmware = readList(device, 'firmwareVersions', () =>
      profiles.warnAboutSkippedPart('has `firmwareVersions` that is not a list; no firmware is imported'),
    );
    const tables = firmware.filter(isTable);
    const resolved = profiles.resolveFirmware(
      tables.map((table) => ({ version: getField(table, 'version'), hardware: getField(table, 'hardwareVersions') })),
    );
    if (tables.length < firmware.length)
      profiles.warnAboutSkippedPart('has an item of `firmwareVersions` without fields; it is not imported');
    for (const [index, table] of tables.entries()) this.addFirmware(resolved[index], table, file, profiles);
    const usableProfiles = profiles.list();
    if (usableProfiles.length === 0) return;
    modelById.set(id, {
      id,
      name: formatShortText(getField(device, 'name'), MAX_NAME_LENGTH) || id,
      description: formatShortText(getField(device, 'description'), MAX_DESCRIPTION_LENGTH),
      otherNames: [],
      profiles: usableProfiles,
    });
  }

  /** Adds the profiles of a firmware version, one per region. */
  private addFirmware(
    resolvedFirmware: Firmware | undefined,
    firmware: Table,
    file: string,
    modelProfiles: ModelProfiles,
  ): void {
    const regions = getField(firmware, 'profiles');
    if (!resolvedFirmware || regions === undefined || regions === null) return;
    if (!isTable(regions)) {
      modelProfiles.warnAboutSkippedPart(
        `has profiles of firmware ${JSON.stringify(resolvedFirmware.version)} that are not a table of regions; they are not imported`,
      );
      return;
    }
    for (const [regionName, row] of Object.entries(regions)) {
      if (this.quota.exceededLimit !== undefined) return;
      const region = findRegion(regionName);
      if (region === undefined)
        modelProfiles.warnAboutSkippedPart(
          `has the region ${JSON.stringify(regionName.slice(0, 64))}, which is unknown; its profiles are not imported`,
        );
      else if (!isTable(row))
        modelProfiles.warnAboutSkippedPart(
          `has no profile for ${region} in firmware ${JSON.stringify(resolvedFirmware.version)}; it is not imported`,
        );
      else modelProfiles.add(resolvedFirmware, region, this.readParts(row, file));
    }
  }

  /** Reads what a profile row names: its radio settings and its codec. */
  private readParts(row: Table, file: string): ProfileParts {
    const codec = this.findCodec(row, file);
    return {
      radio: this.findRadio(row, file),
      codec,
      payloadCodecRuntime: 'value' in codec && codec.value !== undefined ? 'JS' : 'NONE',
    };
  }

  /** Reads the radio settings that a row names, each file once. */
  private findRadio(row: Table, file: string): FileResult<RadioSettings> {
    const id = findFileName(getField(row, 'id'));
    if (id === undefined) return { problem: { file, reason: 'has a row without the id of its profile' } };
    const path = this.findVendorFile(row, id, file);
    return 'problem' in path ? path : getOrCreate(this.radioByPath, path.value, () => this.readRadio(path.value));
  }

  /** Reads a profile file. */
  private readRadio(path: string): FileResult<RadioSettings> {
    const table = this.files.readTable(path, readFields);
    if ('problem' in table) return table;
    const readField = (name: string): unknown => getField(table.value, name);
    const settings = normalizeRadioSettings(
      {
        macVersion: readField('macVersion'),
        regParamsRevision: readField('regionalParametersVersion'),
        supportsOtaa: readField('supportsJoin'),
        supportsClassB: readField('supportsClassB'),
        supportsClassC: readField('supportsClassC'),
        uplinkInterval: readField('uplinkInterval'),
        deviceStatusReqInterval: readField('deviceStatusReqInterval'),
        flushQueueOnActivate: readField('flushQueueOnActivate'),
      },
      (reason) => this.warnings.add(path, reason),
    );
    return 'problem' in settings ? { problem: { file: path, reason: settings.problem } } : settings;
  }

  /** Reads the codec that a row names. Returns its name in the vendor; undefined if the row names none. */
  private findCodec(row: Table, file: string): FileResult<string | undefined> {
    const name = readFileName(row, 'codec');
    if ('problem' in name) return { problem: { file, reason: name.problem } };
    return name.value === undefined ? { value: undefined } : this.readCodec(name.value, row, file);
  }

  /** Reads a codec from the folder of this vendor, or else of the vendor that publishes the profile. */
  private readCodec(name: string, row: Table, file: string): FileResult<string | undefined> {
    const vendorPath = this.files.resolvePath(this.vendorFolder, withYamlExtension(name), file);
    if ('problem' in vendorPath) return vendorPath;
    const publisherPath = this.findVendorFile(row, name, file);
    const isOnlyAtPublisher =
      'value' in publisherPath &&
      publisherPath.value !== vendorPath.value &&
      !this.files.exists(vendorPath.value) &&
      this.files.exists(publisherPath.value);
    const path = isOnlyAtPublisher ? publisherPath.value : vendorPath.value;
    return this.codecs.getName(
      path,
      posix
        .relative(this.vendorFolder, path)
        .replace(/\.yaml$/, '')
        .replace(/^(\.\.\/)+/, ''), // a codec of another vendor
      () => readLorawanDevicesCodec(this.files, path, this.warnings),
    );
  }

  /** Returns the path of a file in the folder of the vendor that a row names; of this vendor if it names none. */
  private findVendorFile(row: Table, name: string, from: string): FileResult<string> {
    const vendorFolder = findFileName(getField(row, 'vendorID'));
    return vendorFolder === undefined
      ? this.files.resolvePath(this.vendorFolder, withYamlExtension(name), from)
      : this.files.resolvePath(this.vendorsPath, `${vendorFolder}/${withYamlExtension(name)}`, from);
  }
}

const withYamlExtension = (name: string): string => (name.endsWith('.yaml') ? name : `${name}.yaml`);
