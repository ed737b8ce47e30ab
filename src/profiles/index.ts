export type { ListedModel, ModelQuery, ProfileTemplate } from './catalogue/catalogue';
export { DeviceProfiles } from './catalogue/deviceProfiles';
export { profileHandlers } from './catalogue/profileHandlers';
export { ProfileIdRepository } from './catalogue/profileIdRepository';
export { CodecRepository, type CodecBrand, type DeviceCodec } from './codecs/codecRepository';
export { openRepository } from './import/openRepository';
export { ProfileImports, type ImportedVendor } from './import/profileImports';
export type { SkippedEntries } from './import/skippedEntries';
export type { ImportWarning, ProfileRepository, ReadVendor } from './import/readVendor';
export { ProfileRemoval, type UsedProfile } from './removal/profileRemoval';
export {
  CODEC_ROLES,
  PROFILE_SOURCES,
  type CodecFile,
  type CodecRole,
  type CodecScripts,
  type ProfileSource,
} from './profile';
