import { posix } from 'node:path';
import { findRegion } from '../regions';
import { chirpStackCodec } from './chirpStackCodec';
import { DEVICE_KEYS, PROFILE_KEYS, unknownKeys, VENDOR_KEYS } from './chirpStackKeys';
import { CodecShelf } from './codecShelf';
import { fileIn, fileNameOf, idOf, isTable, listIn, member, shortText, textOf, type Table } from './fields';
import type { GiveWay } from './givingWay';
import { ImportWarnings, some } from './importWarnings';
import { ModelProfiles, type Firmware, type ProfileParts } from './modelProfiles';
import { radioSettings, type RadioSettings } from './radio';
import { readToml, versionsAsWritten } from './readToml';
import { LONGEST_DESCRIPTION, LONGEST_NAME, type ReadModel, type ReadProfile, type ReadVendor } from './readVendor';
import { once, type Found, type VendorFiles } from './vendorFiles';
import type { VendorRoom } from './vendorRoom';

const MOST_MODELS = 5000;

/** A profile's file, read. */
interface RegionProfile {
  readonly region: string;
  readonly radio: RadioSettings;
  readonly isCayenne: boolean;
}

/** Reads one vendor of chirpstack-device-profiles. */
export class ChirpStackVendor {
  private readonly warnings = new ImportWarnings();
  private readonly profiles = new Map<string, Found<RegionProfile>>();
  private readonly codecs: CodecShelf;

  constructor(
    private readonly files: VendorFiles,
    private readonly own: string,
    private readonly id: string,
    private readonly room: VendorRoom,
  ) {
    this.codecs = new CodecShelf(room);
  }

  /** All of it that can be used. */
  async read(giveWay: GiveWay): Promise<ReadVendor> {
    const file = posix.join(this.own, 'vendor.toml');
    const vendor = this.section(file, 'vendor', VENDOR_KEYS);
    if ('problem' in vendor) this.warnings.leaves();
    if ('problem' in vendor) this.warnings.add(vendor.problem.file, `${vendor.problem.reason}; no model of ${this.id} is imported`);
    const table = 'value' in vendor ? vendor.value : {};
    const models = 'value' in vendor ? await this.models(table, file, giveWay) : [];
    return { id: this.id, name: shortText(member(table, 'name'), LONGEST_NAME) || this.id, otherNames: otherNames(table), models, codecs: this.codecs.usedBy(models), unread: this.warnings.left(), warnings: this.warnings.all(this.own) };
  }

  /** The table that a file consists of. */
  private section(path: string, name: string, keys: Parameters<typeof unknownKeys>[1]): Found<Table> {
    const table = this.files.table(path, readToml);
    if ('problem' in table) return table;
    const unknown = unknownKeys(table.value, keys);
    if (unknown !== undefined) this.warnings.add(path, unknown);
    const inner = member(table.value, name);
    return isTable(inner) ? { value: inner } : { problem: { file: path, reason: `has no table [${name}]` } };
  }

  private async models(vendor: Table, file: string, giveWay: GiveWay): Promise<ReadModel[]> {
    const names = this.listed(vendor, file);
    if (names.length > MOST_MODELS) this.warnings.leaves();
    if (names.length > MOST_MODELS) this.warnings.add(file, `lists ${names.length} devices; the first ${MOST_MODELS} are imported`);
    const models = new Map<string, ReadModel | undefined>();
    for (const name of names.slice(0, MOST_MODELS)) {
      await giveWay();
      if (this.room.full !== undefined) break;
      const id = idOf(posix.basename(name));
      if ('problem' in id) this.warnings.add(file, `lists a device whose name ${id.problem}; it is not imported`);
      else if (models.has(id.value)) this.warnings.add(file, `lists the device ${JSON.stringify(id.value)} more than once; the first is imported`);
      else models.set(id.value, this.model(id.value, name, file));
    }
    if (this.room.full !== undefined) this.warnings.leavesRest(file, this.room.full);
    return [...models.values()].filter((model) => model !== undefined);
  }

  /** The devices of `vendor.toml`, without their ending; all that lie there if it has no list. */
  private listed(vendor: Table, file: string): string[] {
    const present = this.files.stems(posix.join(this.own, 'devices'), '.toml');
    const devices = member(vendor, 'devices');
    if (devices === undefined) return present;
    if (!Array.isArray(devices)) {
      this.warnings.add(file, 'has devices that is no list of files; all in devices/ are imported');
      return present;
    }
    const names = devices.flatMap((name) => fileNameOf(name)?.replace(/\.toml$/, '') ?? []);
    if (names.length < devices.length) this.warnings.add(file, 'lists devices that are no names of files; they are not imported');
    const listed = new Set(names);
    const unlisted = present.filter((name) => !listed.has(name));
    if (unlisted.length > 0) this.warnings.add(file, `does not list all that lies in devices/; not imported: ${some(unlisted)}`);
    return names;
  }

  private model(id: string, name: string, from: string): ReadModel | undefined {
    const path = this.files.path(posix.join(this.own, 'devices'), `${name}.toml`, from);
    const device = 'problem' in path ? path : this.section(path.value, 'device', DEVICE_KEYS);
    if ('problem' in device) this.warnings.leaves(id);
    if ('problem' in device) this.warnings.add(device.problem.file, `${device.problem.reason}; the device ${JSON.stringify(id)} is not imported`);
    if ('problem' in path || 'problem' in device) return undefined;
    const profiles = this.profilesOf(id, path.value, device.value);
    const text = (field: string, most: number): string => shortText(member(device.value, field), most);
    return profiles.length === 0 ? undefined : { id, name: text('name', LONGEST_NAME) || id, description: text('description', LONGEST_DESCRIPTION), otherNames: otherNames(device.value), profiles };
  }

  private profilesOf(id: string, file: string, device: Table): ReadProfile[] {
    const profiles = new ModelProfiles(id, file, this.warnings, this.room);
    const listed = listIn(device, 'firmware', () => profiles.drop('has firmware that is no list; write [[device.firmware]] before each'));
    const firmware = listed.filter(isTable);
    if (firmware.length < listed.length) profiles.drop('has items of firmware that are no tables; they are not imported');
    const all = profiles.open(this.versions(firmware, file).map((version) => ({ version, hardware: undefined })));
    for (const [at, table] of firmware.entries()) {
      const opened = all[at];
      if (opened) this.firmware(opened, table, { file, isCayenne: saysCayenne(device) || saysCayenne(table), into: profiles });
    }
    return profiles.all();
  }

  /** Their versions: a bare number as it stands in the file. */
  private versions(firmware: readonly Table[], file: string): readonly unknown[] {
    const versions = firmware.map((table) => member(table, 'version'));
    const text = versions.every((version) => typeof version === 'string') ? undefined : this.files.text(file);
    return text && 'value' in text ? versionsAsWritten(versions, text.value) : versions;
  }

  private firmware(opened: Firmware, table: Table, { file, isCayenne, into }: { readonly file: string; readonly isCayenne: boolean; readonly into: ModelProfiles }): void {
    const named = listIn(table, 'profiles', () => into.drop(`has profiles of firmware ${JSON.stringify(opened.version)} that are no list of files; they are not imported`));
    for (const name of named) {
      if (this.room.full !== undefined) return;
      const profile = this.profile(name, file);
      if ('problem' in profile) into.lose(profile.problem);
      else into.add(opened, profile.value.region, { radio: { value: profile.value.radio }, ...this.runtime(table, file, isCayenne || profile.value.isCayenne) });
    }
  }

  private runtime(firmware: Table, file: string, isCayenne: boolean): Pick<ProfileParts, 'codec' | 'payloadCodecRuntime'> {
    if (isCayenne) return { codec: { value: undefined }, payloadCodecRuntime: 'CAYENNE_LPP' };
    const codec = this.codec(firmware, file);
    return { codec, payloadCodecRuntime: 'value' in codec && codec.value === undefined ? 'NONE' : 'JS' };
  }

  private profile(listed: unknown, from: string): Found<RegionProfile> {
    const name = fileNameOf(listed);
    if (name === undefined) return { problem: { file: from, reason: 'lists a profile without a name' } };
    const path = this.files.path(posix.join(this.own, 'profiles'), name.endsWith('.toml') ? name : `${name}.toml`, from);
    return 'problem' in path ? path : once(this.profiles, path.value, () => this.readProfile(path.value));
  }

  private readProfile(path: string): Found<RegionProfile> {
    const table = this.section(path, 'profile', PROFILE_KEYS);
    if ('problem' in table) return table;
    const at = (name: string): unknown => member(table.value, name);
    const spelling = textOf(at('region'));
    const region = spelling === undefined ? undefined : findRegion(spelling);
    if (region === undefined) return { problem: { file: path, reason: spelling === undefined ? 'says no region' : `has the region ${JSON.stringify(spelling.slice(0, 64))}, which is not known` } };
    const [macVersion, regParamsRevision, supportsOtaa, supportsClassB, supportsClassC] = ['mac_version', 'reg_params_revision', 'supports_otaa', 'supports_class_b', 'supports_class_c'].map(at);
    const [uplinkInterval, deviceStatusReqInterval, flushQueueOnActivate] = ['uplink_interval', 'device_status_req_interval', 'flush_queue_on_activate'].map(at);
    const words = { macVersion, regParamsRevision, supportsOtaa, supportsClassB, supportsClassC, uplinkInterval, deviceStatusReqInterval, flushQueueOnActivate };
    const radio = radioSettings(words, (reason) => this.warnings.add(path, reason));
    return 'problem' in radio ? { problem: { file: path, reason: radio.problem } } : { value: { region, radio: radio.value, isCayenne: saysCayenne(table.value) } };
  }

  private codec(firmware: Table, from: string): Found<string | undefined> {
    const name = fileIn(firmware, 'codec');
    if ('problem' in name) return { problem: { file: from, reason: name.problem } };
    if (name.value === undefined) return { value: undefined };
    const folder = posix.join(this.own, 'codecs');
    const path = this.files.path(folder, name.value.endsWith('.js') ? name.value : `${name.value}.js`, from);
    return 'problem' in path ? path : this.codecs.nameOf(path.value, posix.relative(folder, path.value).replace(/\.js$/, '').replace(/^(\.\.\/)+/, ''), () => chirpStackCodec(this.files, path.value, this.warnings));
  }
}

/** Whether a table says that the network server decodes the payload itself. */
function saysCayenne(table: Table): boolean {
  return [member(table, 'codec'), member(table, 'payload_codec_runtime')].some((value) => textOf(value)?.toUpperCase() === 'CAYENNE_LPP');
}

/** The identifier of the repository. */
function otherNames(table: Table): string[] {
  const id = shortText(member(table, 'id'), LONGEST_NAME);
  return id === '' ? [] : [id];
}
