package apps

import "math"

// Size of a camera frame, and the radius of the signs in it.
const (
	frameWidth, frameHeight = 320, 240
	signRadius              = 14
)

// perceive searches frames for round signs. It blurs a frame, finds edges (Sobel), and lets the edges vote for the
// center of a circle (Hough).
func perceive(frames int, _ string) (uint64, error) {
	return inParallel(frames, func(frame int) uint64 {
		picture := blur(blur(takeFrame(frame)))
		x, y := findCircle(picture)
		return uint64(y*frameWidth + x)
	}), nil
}

// takeFrame draws a sign at a random position on a background of noise.
func takeFrame(frame int) []float32 {
	random := randomOf(frame)
	atX, atY := signPlace(frame)
	picture := make([]float32, frameWidth*frameHeight)
	for i := range picture {
		picture[i] = 60 * random.Float32()
		if d := math.Hypot(float64(i%frameWidth-atX), float64(i/frameWidth-atY)); d < signRadius {
			picture[i] += 180
		}
	}
	return picture
}

// signPlace returns the center of the sign in a frame.
func signPlace(frame int) (x, y int) {
	random := randomOf(-1 - frame)
	return 40 + random.IntN(frameWidth-80), 40 + random.IntN(frameHeight-80)
}

// blur applies a Gaussian filter to a picture.
func blur(picture []float32) []float32 {
	weights := [5]float32{1. / 16, 4. / 16, 6. / 16, 4. / 16, 1. / 16}
	rows, out := make([]float32, len(picture)), make([]float32, len(picture))
	for i := 2; i < len(picture)-2; i++ {
		for k, w := range weights {
			rows[i] += w * picture[i+k-2]
		}
	}
	for i := 2 * frameWidth; i < len(picture)-2*frameWidth; i++ {
		for k, w := range weights {
			out[i] += w * rows[i+(k-2)*frameWidth]
		}
	}
	return out
}

// findCircle finds a circle by a Hough transform: each edge pixel votes for possible centers, and findCircle returns the center with
// the most votes.
func findCircle(picture []float32) (x, y int) {
	votes := make([]uint16, len(picture))
	for i := 3*frameWidth + 3; i < len(picture)-3*frameWidth-3; i++ {
		up, down := picture[i-frameWidth-1:], picture[i+frameWidth-1:]
		dx := up[2] + 2*picture[i+1] + down[2] - up[0] - 2*picture[i-1] - down[0]
		dy := down[0] + 2*down[1] + down[2] - up[0] - 2*up[1] - up[2]
		strength := math.Hypot(float64(dx), float64(dy))
		if strength < 120 {
			continue
		}
		// The sign is brighter than its surroundings, so its center lies in the direction of the gradient.
		for r := signRadius - 3; r <= signRadius+3; r++ {
			cx := i%frameWidth + int(math.Round(float64(dx)/strength*float64(r)))
			cy := i/frameWidth + int(math.Round(float64(dy)/strength*float64(r)))
			if cx >= 0 && cx < frameWidth && cy >= 0 && cy < frameHeight {
				votes[cy*frameWidth+cx]++
			}
		}
	}
	best := 0
	for i, n := range votes {
		if n > votes[best] {
			best = i
		}
	}
	return best % frameWidth, best / frameWidth
}
