export { toEnvironmentVariables } from './toEnvironmentVariables';
export { parseHostPort, formatHostPort, isLoopback, getLocalHost, type HostPort } from './hostPort';
export { loadConfig, type LoadedConfig } from './loadConfig';
export { listSettings, redactPassword } from './printConfig';
export { SETTINGS, type Config, type Setting } from './schema';
