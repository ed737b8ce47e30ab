import { posix } from 'node:path';
import { findRegion } from '../regions';
import { CodecShelf } from './codecShelf';
import { fileIn, fileNameOf, idOf, isTable, listIn, member, shortText, type Table } from './fields';
import type { GiveWay } from './givingWay';
import { ImportWarnings } from './importWarnings';
import { lorawanDevicesCodec } from './lorawanDevicesCodec';
import { ModelProfiles, type Firmware, type ProfileParts } from './modelProfiles';
import type { Outcome } from './outcome';
import { radioSettings, type RadioSettings } from './radio';
import { readYaml } from './readYaml';
import { LONGEST_DESCRIPTION, LONGEST_NAME, type ImportWarning, type ReadModel, type ReadVendor } from './readVendor';
import { once, type Found, type VendorFiles } from './vendorFiles';
import type { VendorRoom } from './vendorRoom';

const MOST_MODELS = 5000;

/** A vendor that the repository's list names. */
export interface ListedVendor {
  readonly id: string;
  readonly name: string;
  /** The name of its folder. */
  readonly folder: string;
}

/** A YAML file whose numbers are texts. */
export const readFields = (text: string): Outcome<unknown> => readYaml(text, 'as written');

/** Reads one vendor of lorawan-devices; `vendors` is the folder in which those of the vendors lie. */
export class LorawanDevicesVendor {
  private readonly warnings = new ImportWarnings();
  private readonly radios = new Map<string, Found<RadioSettings>>();
  /** The devices that were listed, by their files. */
  private readonly listed = new Map<string, string>();
  private readonly codecs: CodecShelf;
  private readonly own: string;

  constructor(
    private readonly files: VendorFiles,
    private readonly vendors: string,
    private readonly vendor: ListedVendor,
    private readonly room: VendorRoom,
  ) {
    this.codecs = new CodecShelf(room);
    this.own = posix.join(vendors, vendor.folder);
  }

  /** All of it that can be used. */
  async read(giveWay: GiveWay): Promise<ReadVendor> {
    const models = await this.models(giveWay);
    return { id: this.vendor.id, name: this.vendor.name, otherNames: [], models, codecs: this.codecs.usedBy(models), unread: this.warnings.left(), warnings: this.warnings.all(this.own) };
  }

  private async models(giveWay: GiveWay): Promise<ReadModel[]> {
    const file = posix.join(this.own, 'index.yaml');
    const index = this.files.table(file, readFields);
    if ('problem' in index) {
      this.warnings.add(index.problem.file, `${index.problem.reason}; no model of ${this.vendor.id} is imported`);
      this.warnings.leaves();
      return [];
    }
    const models = new Map<string, ReadModel>();
    for (const name of this.names(index.value, file)) {
      await giveWay();
      if (this.room.full === undefined) this.model(name, file, models);
    }
    if (this.room.full !== undefined) this.warnings.leavesRest(file, this.room.full);
    return [...models.values()];
  }

  private names(index: Table, file: string): readonly unknown[] {
    const names = listIn(index, 'endDevices', () => this.warnings.add(file, 'has endDevices that is no list of names; no model is imported'));
    if (names.length > MOST_MODELS || !Array.isArray(member(index, 'endDevices'))) this.warnings.leaves();
    if (names.length > MOST_MODELS) this.warnings.add(file, `lists ${names.length} devices; the first ${MOST_MODELS} are imported`);
    return names.slice(0, MOST_MODELS);
  }

  private model(listed: unknown, index: string, models: Map<string, ReadModel>): void {
    const name = fileNameOf(listed);
    const id = idOf(name?.replace(/\.yaml$/, ''));
    if ('problem' in id || name === undefined) this.warnings.add(index, `lists a device whose name ${'problem' in id ? id.problem : 'is empty'}; it is not imported`);
    else if (models.has(id.value)) this.warnings.add(index, `lists the device ${JSON.stringify(id.value)} more than once; the first is imported`);
    else {
      const path = this.files.path(this.own, withEnding(name), index);
      const first = 'value' in path ? this.listed.get(path.value) : undefined;
      if ('problem' in path) this.lose(id.value, path.problem);
      else if (first === undefined) this.device(id.value, path.value, models);
      else this.warnings.add(index, `lists the file of the device ${JSON.stringify(first)} more than once; the first is imported`);
    }
  }

  private device(id: string, path: string, models: Map<string, ReadModel>): void {
    this.listed.set(path, id);
    const device = this.files.table(path, readFields);
    if ('problem' in device) this.lose(id, device.problem);
    else this.keep(id, path, device.value, models);
  }

  private lose(id: string, { file, reason }: ImportWarning): void {
    this.warnings.add(file, `${reason}; the device ${JSON.stringify(id)} is not imported`);
    this.warnings.leaves(id);
  }

  private keep(id: string, file: string, device: Table, models: Map<string, ReadModel>): void {
    const profiles = new ModelProfiles(id, file, this.warnings, this.room);
    const firmware = listIn(device, 'firmwareVersions', () => profiles.drop('has firmwareVersions that is no list; none is imported'));
    const tables = firmware.filter(isTable);
    const opened = profiles.open(tables.map((table) => ({ version: member(table, 'version'), hardware: member(table, 'hardwareVersions') })));
    if (tables.length < firmware.length) profiles.drop('has an item of firmwareVersions without fields; it is not imported');
    for (const [at, table] of tables.entries()) this.firmware(opened[at], table, file, profiles);
    const all = profiles.all();
    if (all.length === 0) return;
    models.set(id, { id, name: shortText(member(device, 'name'), LONGEST_NAME) || id, description: shortText(member(device, 'description'), LONGEST_DESCRIPTION), otherNames: [], profiles: all });
  }

  private firmware(opened: Firmware | undefined, firmware: Table, file: string, into: ModelProfiles): void {
    const regions = member(firmware, 'profiles');
    if (!opened || regions === undefined || regions === null) return;
    if (!isTable(regions)) return into.drop(`has profiles of firmware ${JSON.stringify(opened.version)} that are no table of regions; they are not imported`);
    for (const [spelling, row] of Object.entries(regions)) if (this.room.full === undefined) this.row(opened, spelling, row, file, into);
  }

  private row(firmware: Firmware, spelling: string, row: unknown, file: string, into: ModelProfiles): void {
    const region = findRegion(spelling);
    if (region === undefined) into.drop(`has the region ${JSON.stringify(spelling.slice(0, 64))}, which is not known; its profiles are not imported`);
    else if (!isTable(row)) into.drop(`names no profile for ${region} in firmware ${JSON.stringify(firmware.version)}; it is not imported`);
    else into.add(firmware, region, this.parts(row, file));
  }

  private parts(row: Table, file: string): ProfileParts {
    const codec = this.codec(row, file);
    return { radio: this.radio(row, file), codec, payloadCodecRuntime: 'value' in codec && codec.value !== undefined ? 'JS' : 'NONE' };
  }

  private radio(row: Table, file: string): Found<RadioSettings> {
    const id = fileNameOf(member(row, 'id'));
    if (id === undefined) return { problem: { file, reason: 'has a row without the id of its profile' } };
    const path = this.inVendor(row, id, file);
    return 'problem' in path ? path : once(this.radios, path.value, () => this.readRadio(path.value));
  }

  private readRadio(path: string): Found<RadioSettings> {
    const table = this.files.table(path, readFields);
    if ('problem' in table) return table;
    const [macVersion, regParamsRevision, supportsOtaa, supportsClassB, supportsClassC] = ['macVersion', 'regionalParametersVersion', 'supportsJoin', 'supportsClassB', 'supportsClassC'].map((name) => member(table.value, name));
    const [uplinkInterval, deviceStatusReqInterval, flushQueueOnActivate] = ['uplinkInterval', 'deviceStatusReqInterval', 'flushQueueOnActivate'].map((name) => member(table.value, name));
    const settings = radioSettings({ macVersion, regParamsRevision, supportsOtaa, supportsClassB, supportsClassC, uplinkInterval, deviceStatusReqInterval, flushQueueOnActivate }, (reason) => this.warnings.add(path, reason));
    return 'problem' in settings ? { problem: { file: path, reason: settings.problem } } : settings;
  }

  /** In the vendor's own folder, and where there is none in that of the vendor whose profile it is. */
  private codec(row: Table, file: string): Found<string | undefined> {
    const name = fileIn(row, 'codec');
    if ('problem' in name) return { problem: { file, reason: name.problem } };
    return name.value === undefined ? { value: undefined } : this.codecCalled(name.value, row, file);
  }

  private codecCalled(name: string, row: Table, file: string): Found<string | undefined> {
    const own = this.files.path(this.own, withEnding(name), file);
    if ('problem' in own) return own;
    const other = this.inVendor(row, name, file);
    const path = 'value' in other && other.value !== own.value && !this.files.exists(own.value) && this.files.exists(other.value) ? other.value : own.value;
    return this.codecs.nameOf(path, posix.relative(this.own, path).replace(/\.yaml$/, '').replace(/^(\.\.\/)+/, ''), () => lorawanDevicesCodec(this.files, path, this.warnings));
  }

  /** A file of the vendor that a row names, or else of its own. */
  private inVendor(row: Table, name: string, from: string): Found<string> {
    const vendor = fileNameOf(member(row, 'vendorID'));
    return vendor === undefined ? this.files.path(this.own, withEnding(name), from) : this.files.path(this.vendors, `${vendor}/${withEnding(name)}`, from);
  }
}

const withEnding = (name: string): string => (name.endsWith('.yaml') ? name : `${name}.yaml`);
