export { DeviceProfiles, type ListedModel, type ModelPage, type ModelQuery, type ProfileQuery, type ProfileTemplate } from './catalogue/deviceProfiles';
export { profileHandlers, type ProfileHandlers } from './catalogue/profileHandlers';
export { CodecRepository, type DeviceCodec } from './codecs/codecRepository';
export { openRepository } from './import/openRepository';
export { ProfileImports, type ImportedVendor } from './import/profileImports';
export type { ImportWarning, ProfileRepository, ReadVendor } from './import/readVendor';
export { CODEC_ROLES, PROFILE_SOURCES, type CodecExamples, type CodecFile, type CodecRole, type CodecScripts, type DeviceProfile, type ProfileSource } from './profile';
