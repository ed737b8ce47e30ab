export type { BindingInput, BindingPatch } from './binding';
export type { DataSendingInterval, Device, IntervalUnit, ListedDevice, PhysicalDevice, Sensor, SensorMapping, SensorUse } from './device';
export { digitalDeviceHandlers, type DigitalDeviceHandlers } from './deviceHandlers';
export type { DeviceHooks } from './deviceHooks';
export { DeviceRepository, type Binding } from './deviceRepository';
export { DeviceService, type DeviceChange, type DeviceOptions, type DevicePage, type DeviceQuery, type NewDevice } from './deviceService';
export { SensorService, type MappingInput } from './sensorService';
export { formatSourcePath, itemPath, LONGEST_SOURCE_PATH, memberPath, parseSourcePath, type PathStep } from './sourcePath';
export { medianUplinkGap, REMEMBERED_UPLINKS } from './uplinkGaps';
