export { asVariables } from './asVariables';
export { findHostPort, hostPortText, isLoopback, reachableHost, type HostPort } from './listen';
export { configurationInvalid, loadConfig, type ConfigSources, type LoadedConfig } from './loadConfig';
export { shownSettings, withoutPassword, type ShownSetting } from './printConfig';
export { SETTINGS, type Config, type Setting } from './schema';
