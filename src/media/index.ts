export { imageListViolations, type DeviceImage, type ImageInput } from './deviceImage';
export { imagesFromJson, imagesOfDeviceSql, ImageRepository } from './imageRepository';
export { type Media, type Variant } from './media';
export { MediaLinks } from './mediaLinks';
