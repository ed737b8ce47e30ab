export { NormalizedKeyService } from './normalizedKeyService';
export { seedSystemRecords } from './seedSystemRecords';
export { type NormalizedKey, type SensorTemplate, type ValueType } from './sensorTemplate';
export { sensorTemplateHandlers } from './sensorTemplateHandlers';
export { sensorTemplateRepositories, type SensorTemplateRepositories } from './sensorTemplateRepositories';
export { SensorTemplateRepository } from './sensorTemplateRepository';
export { SensorTemplateService, type NewTemplate, type SensorTemplateServiceOptions } from './sensorTemplateService';
export { typedValue } from './typedValue';
export { UNITS, type UnitMeasurement } from './units';
